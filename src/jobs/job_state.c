/* job_state.c - encodes and decodes the files of a job. SPDX-License-Identifier: Apache-2.0
 *
 * penstock-format(5) has the layouts. Decoding verifies the CRC first, and then that each field has
 * a possible value, because the bytes may be those of another program or of a later version. */
#include "jobs/job_state.h"

#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "s3/request.h"

#define STATE_MAGIC 0x4a545350u       /* "PSTJ" */
#define BLOCK_MAGIC 0x4b545350u       /* "PSTK" */
#define VERSION 1u
#define FOLLOW_VERSION 2u             /* of JOB_FOLLOW: a Penstock that knows only version 1 leaves
                                       * such a job alone */
#define PEERS_VERSION 3u              /* of a job that has bytes of other nodes; of any mode */
#define NAME_BYTES_MAX 4096u          /* limit of each text, except keys */

struct state_head {
    uint32_t magic, version;
    uint64_t id;
    int64_t began_s, ended_s;
    uint32_t state, by_list;
    uint64_t listed;
    uint64_t objects, bytes, hits, fetched, origin_bytes, not_kept, failed;
    uint64_t block;
    uint32_t row, ranges, failures, zero;
};
struct follow_row {                   /* behind the head, from FOLLOW_VERSION on */
    uint64_t window, skipped, read, unread_bytes;
};
struct peers_row {                    /* behind that, from PEERS_VERSION on */
    uint64_t bytes;
};
struct range_row {
    uint64_t kind, first, last, suffix;
};
struct block_head {
    uint32_t magic, bytes, count, crc;    /* bytes and CRC: of the rows */
};
struct item_row {
    uint32_t key_len, spans;
    uint64_t first, length;
};
static_assert(sizeof(struct state_head) == 128, "on disk");
static_assert(sizeof(struct follow_row) == 32, "on disk");
static_assert(sizeof(struct peers_row) == 8, "on disk");
static_assert(sizeof(struct range_row) == 32, "on disk");
static_assert(sizeof(struct block_head) == 16, "on disk");
static_assert(sizeof(struct item_row) == 24, "on disk");
static_assert(sizeof(struct block_head) + sizeof(struct item_row) + S3_KEY_BYTES_MAX <=
              JOB_BLOCK_MAX, "each item fits into an empty block");

const char *job_state_name(enum job_state state)
{
    static const char *const names[] = {
        [JOB_RUNNING] = "running", [JOB_DONE] = "done", [JOB_CANCELED] = "canceled",
        [JOB_FULL] = "full", [JOB_REFUSED] = "refused", [JOB_FAILED] = "failed",
        [JOB_UNREAD] = "unread",
    };
    check(state < JOB_STATES);
    return names[state];
}

const char *job_mode_name(enum job_mode mode)
{
    check(mode < JOB_MODES);
    return mode == JOB_FOLLOW ? "follow" : "warm";
}

bool job_id_read(slice text, uint64_t *ret)
{
    uint8_t bytes[sizeof(*ret)];
    *ret = 0;
    if (text.len != 2 * sizeof(bytes) || !slice_unhex(text, bytes, sizeof(bytes)))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        *ret = *ret << 8 | bytes[i];
    return true;
}

/* ---- texts: a length, and the bytes ---- */

static void put_text(struct text *to, slice s)
{
    uint32_t len = (uint32_t)s.len;
    text_add(to, (slice){ (char *)&len, sizeof(len) });
    text_add(to, s);
}

/* Cuts `bytes` off the rest. Returns false if the rest is shorter. */
static bool take(slice *rest, void *to, size_t bytes)
{
    if (rest->len < bytes)
        return false;
    memcpy(to, rest->ptr, bytes);
    *rest = slice_from(*rest, bytes);
    return true;
}

static bool take_text(slice *rest, size_t most, slice *ret)
{
    uint32_t len;
    if (!take(rest, &len, sizeof(len)) || len > most || len > rest->len)
        return false;
    *ret = slice_sub(*rest, 0, len);
    *rest = slice_from(*rest, len);
    return true;
}

/* ---- the state ---- */

static uint32_t version_of(const struct job_file *file)
{
    return file->sums.peers_bytes ? PEERS_VERSION
         : file->spec.mode == JOB_FOLLOW ? FOLLOW_VERSION : VERSION;
}

static struct state_head head_of(const struct job_file *file)
{
    const struct job_sums *sums = &file->sums;
    return (struct state_head){
        .magic = STATE_MAGIC, .id = file->id, .version = version_of(file),
        .began_s = file->began_s, .ended_s = file->ended_s, .state = file->state,
        .by_list = file->spec.by_list, .listed = file->spec.listed,
        .objects = sums->objects, .bytes = sums->bytes, .hits = sums->hits,
        .fetched = sums->fetched, .origin_bytes = sums->origin_bytes, .not_kept = sums->not_kept,
        .failed = sums->failed, .block = file->cursor.block, .row = file->cursor.row,
        .ranges = (uint32_t)file->spec.range_count, .failures = (uint32_t)file->failure_count };
}

slice job_file_encode(const struct job_file *file, struct arena *keep)
{
    struct state_head head = head_of(file);
    struct text text = text_in(keep);
    check(file->spec.range_count <= JOB_RANGES_MAX && file->failure_count <= JOB_FAILURES_MAX);
    text_add(&text, (slice){ (char *)&head, sizeof(head) });
    if (head.version >= FOLLOW_VERSION) {
        struct follow_row row = { file->spec.window, file->sums.skipped, file->readers.read,
                                  file->readers.unread_bytes };
        text_add(&text, (slice){ (char *)&row, sizeof(row) });
    }
    if (head.version >= PEERS_VERSION) {
        struct peers_row row = { file->sums.peers_bytes };
        text_add(&text, (slice){ (char *)&row, sizeof(row) });
    }
    for (size_t i = 0; i < file->spec.range_count; i++) {
        const struct s3_range *range = &file->spec.ranges[i];
        struct range_row row = { range->kind, range->first, range->last, range->suffix };
        text_add(&text, (slice){ (char *)&row, sizeof(row) });
    }
    const slice texts[] = { file->spec.owner, file->spec.bucket, file->spec.prefix,
                            file->cursor.after, file->why };
    for (size_t i = 0; i < countof(texts); i++)
        put_text(&text, texts[i]);
    for (size_t i = 0; i < file->failure_count; i++) {
        uint32_t status = (uint32_t)file->failures[i].status;
        text_add(&text, (slice){ (char *)&status, sizeof(status) });
        put_text(&text, file->failures[i].key);
        put_text(&text, file->failures[i].code);
    }
    uint32_t crc = crc32c(0, text.ptr, text.len);
    text_add(&text, (slice){ (char *)&crc, sizeof(crc) });
    return text_slice(&text);
}

static bool is_possible(const struct state_head *head)
{
    return head->magic == STATE_MAGIC && head->version && head->state < JOB_STATES &&
           head->by_list <= 1 && head->ranges <= JOB_RANGES_MAX &&
           head->failures <= JOB_FAILURES_MAX && !head->zero && head->block <= INT64_MAX;
}

static bool take_peers(slice *rest, uint32_t version, struct job_file *file)
{
    struct peers_row row = { 0 };
    if (version >= PEERS_VERSION && !take(rest, &row, sizeof(row)))
        return false;
    file->sums.peers_bytes = row.bytes;
    return true;
}

/* From PEERS_VERSION on, the row of a job that does not follow has no window. */
static bool take_follow(slice *rest, uint32_t version, struct job_file *file)
{
    struct follow_row row;
    if (version < FOLLOW_VERSION)
        return true;
    if (!take(rest, &row, sizeof(row)))
        return false;
    if (version >= PEERS_VERSION && !row.window)
        return true;
    if (!row.window || !file->spec.by_list)
        return false;
    file->spec.mode = JOB_FOLLOW;
    file->spec.window = row.window;
    file->sums.skipped = row.skipped;
    file->readers = (struct job_readers){ row.read, row.unread_bytes };
    return true;
}

static bool take_ranges(slice *rest, struct job_spec *spec)
{
    for (size_t i = 0; i < spec->range_count; i++) {
        struct range_row row;
        if (!take(rest, &row, sizeof(row)) || row.kind > RANGE_SUFFIX || row.first > row.last)
            return false;
        spec->ranges[i] = (struct s3_range){ .kind = (int)row.kind, .first = row.first,
                                             .last = row.last, .suffix = row.suffix };
    }
    return true;
}

static bool take_texts(slice *rest, struct job_file *file)
{
    return take_text(rest, NAME_BYTES_MAX, &file->spec.owner) &&
           take_text(rest, NAME_BYTES_MAX, &file->spec.bucket) &&
           take_text(rest, S3_KEY_BYTES_MAX, &file->spec.prefix) &&
           take_text(rest, S3_KEY_BYTES_MAX, &file->cursor.after) &&
           take_text(rest, NAME_BYTES_MAX, &file->why) && s3_bucket_is_valid(file->spec.bucket);
}

static bool take_failures(slice *rest, struct job_file *file)
{
    for (size_t i = 0; i < file->failure_count; i++) {
        struct job_failure *failure = &file->failures[i];
        uint32_t status;
        if (!take(rest, &status, sizeof(status)) || status > 999 ||
            !take_text(rest, S3_KEY_BYTES_MAX, &failure->key) ||
            !take_text(rest, NAME_BYTES_MAX, &failure->code))
            return false;
        failure->status = (int)status;
    }
    return true;
}

enum err job_file_decode(slice bytes, struct arena *keep, struct job_file *ret)
{
    struct state_head head;
    uint32_t crc;
    if (bytes.len < sizeof(head) + sizeof(crc))
        return ERR_GONE;
    slice rest = slice_sub(bytes, 0, bytes.len - sizeof(crc));
    memcpy(&crc, bytes.ptr + rest.len, sizeof(crc));
    bool whole = crc == crc32c(0, rest.ptr, rest.len);
    if (!whole || !take(&rest, &head, sizeof(head)))
        return ERR_GONE;
    if (head.magic == STATE_MAGIC && head.version > PEERS_VERSION)
        return ERR_FORMAT;
    if (!is_possible(&head))
        return ERR_GONE;
    *ret = (struct job_file){
        .id = head.id, .began_s = head.began_s, .ended_s = head.ended_s,
        .state = (enum job_state)head.state,
        .spec = { .by_list = head.by_list, .listed = head.listed, .range_count = head.ranges },
        .sums = { head.objects, head.bytes, head.hits, head.fetched, head.origin_bytes,
                  head.not_kept, head.failed, 0, 0 },
        .cursor = { .block = head.block, .row = head.row },
        .failures = arena_alloc(keep, (head.failures + 1) * sizeof(*ret->failures)),
        .failure_count = head.failures };
    bool good = take_follow(&rest, head.version, ret) && take_peers(&rest, head.version, ret) &&
                take_ranges(&rest, &ret->spec) && take_texts(&rest, ret) &&
                take_failures(&rest, ret) && !rest.len;
    return good ? OK : ERR_GONE;
}

/* ---- blocks of a list ---- */

void job_block_begin(struct job_block *block)
{
    block->len = sizeof(struct block_head);
    block->count = 0;
}

bool job_block_add(struct job_block *block, const struct item *item)
{
    struct item_row row = { .key_len = (uint32_t)item->key.len, .spans = item->kind == ITEM_SPAN,
                            .first = item->first, .length = item->length };
    check(item->kind != ITEM_RANGE && item->key.len && item->key.len <= S3_KEY_BYTES_MAX);
    check(item->kind == ITEM_WHOLE || item->length);
    if (block->len + sizeof(row) + item->key.len > sizeof(block->bytes))
        return false;
    memcpy(block->bytes + block->len, &row, sizeof(row));
    block->len += sizeof(row);
    block->len += slice_put(block->bytes + block->len, item->key);
    block->count++;
    return true;
}

slice job_block_end(struct job_block *block)
{
    struct block_head head = { BLOCK_MAGIC, (uint32_t)(block->len - sizeof(head)),
                               (uint32_t)block->count, 0 };
    head.crc = crc32c(0, block->bytes + sizeof(head), head.bytes);
    memcpy(block->bytes, &head, sizeof(head));
    return (slice){ block->bytes, block->len };
}

static bool take_item(slice *rest, struct item *ret)
{
    struct item_row row;
    if (!take(rest, &row, sizeof(row)) || !row.key_len || row.key_len > S3_KEY_BYTES_MAX ||
        row.key_len > rest->len || row.spans > 1 || (row.spans && !row.length) ||
        (row.length != ITEM_OPEN && (row.length > INT64_MAX || row.first > INT64_MAX - row.length)))
        return false;
    *ret = (struct item){ .key = slice_sub(*rest, 0, row.key_len), .first = row.first,
                          .kind = row.spans ? ITEM_SPAN : ITEM_WHOLE, .length = row.length,
                          .to = ITEM_OPEN, .max = ITEM_OPEN };
    *rest = slice_from(*rest, row.key_len);
    return true;
}

enum err job_block_decode(slice bytes, struct arena *keep, struct items *ret, size_t *ret_bytes)
{
    struct block_head head;
    slice rest = bytes;
    if (!take(&rest, &head, sizeof(head)) || head.magic != BLOCK_MAGIC || head.bytes > rest.len ||
        head.count > head.bytes / sizeof(struct item_row) ||
        head.crc != crc32c(0, rest.ptr, head.bytes))
        return ERR_GONE;
    rest = slice_sub(rest, 0, head.bytes);
    ret->list = arena_alloc(keep, (head.count + 1) * sizeof(*ret->list));
    for (ret->count = 0; ret->count < head.count; ret->count++)
        if (!take_item(&rest, &ret->list[ret->count]))
            return ERR_GONE;
    *ret_bytes = sizeof(head) + head.bytes;
    return rest.len ? ERR_GONE : OK;
}
