/* format.c - the layout of the cache folder: encoding, decoding, checks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Structs are copied as a whole to and from the disk; their sizes are asserted. Only an entry of
 * the index, metadata and the format file have another form on disk. Decoding trusts
 * nothing: it verifies the checksum, and then that each field has a possible value. So no caller
 * computes with a length that came from a broken disk. Pure; any thread. */
#include "store/format.h"

#include <assert.h>
#include <string.h>

#include "base/guard.h"

#define RECORD_MAGIC 0x52545350u      /* "PSTR" */
#define ENTRY_LEN_BITS 21
#define ENTRY_LEN_MASK ((1u << ENTRY_LEN_BITS) - 1)
#define ENTRY_WHOLE (1u << ENTRY_LEN_BITS)
#define ENTRY_GENERATION_SHIFT (ENTRY_LEN_BITS + 1)

#define ON_DISK struct __attribute__((packed))

ON_DISK disk_entry {
    uint32_t extent, offset, ordinal, len_flags;
    uint64_t etag_hash, mark;
    uint32_t crc;                     /* of the key, then of all before */
};
ON_DISK disk_metadata {
    uint64_t size;
    int64_t modified_s;
    uint32_t flags, name_len, etag_len, fields_len;
};
/* A format file of version 2 has this struct, a disk_volume for each volume, and a CRC. */
ON_DISK disk_format {
    char magic[8];
    uint32_t version, generation;
    uint8_t secret[STORE_SECRET_BYTES];
    uint64_t size_bytes, opening;
    uint32_t extent_bytes, weight;
    uint8_t volume[VOLUME_ID_BYTES];
    uint64_t serial;
    uint32_t volume_count, zero;
};
ON_DISK disk_format_1 {
    char same[offsetof(struct disk_format, weight)];
    uint32_t zero[2], crc;
};
ON_DISK disk_volume {
    uint8_t id[VOLUME_ID_BYTES];
    uint32_t weight;
    uint64_t shared;                  /* files of an earlier state of version 2 lack it */
};
#define OLD_VOLUME_BYTES offsetof(struct disk_volume, shared)

enum { METADATA_FULL = 1, METADATA_UNSHARED = 2 };    /* disk_metadata.flags */
enum { OFFSET_REFUSED = 1 };    /* in the offset of a record, which starts on 64 bytes */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the machine is little-endian, as the format on disk is");
static_assert(sizeof(struct disk_entry) == ENTRY_BYTES, "on disk");
static_assert(offsetof(struct record, crc) == 64 && sizeof(struct record) == RECORD_HEADER_MAX,
              "on disk");
static_assert(offsetof(struct record, header_crc) == 60, "on disk");
static_assert(sizeof(struct disk_metadata) == 32, "on disk");
static_assert(sizeof(struct disk_format_1) == 64, "on disk");
static_assert(sizeof(struct disk_format) == 88 && sizeof(struct disk_volume) == 28, "on disk");
static_assert(2 * (sizeof(struct disk_format) + VOLUMES_MAX * sizeof(struct disk_volume) + 4) + 4 <=
              FORMAT_BYTES_MAX, "two copies of the longest list fit");
static_assert(RECORD_BLOCKS <= UINT8_MAX, "a record's blocks are counted in a byte");
static_assert(RECORD_BYTES_MAX <= ENTRY_LEN_MASK, "the length of a record fits into an entry");
static_assert(ENTRY_GENERATION_SHIFT + 10 == 32 && GENERATIONS == 1u << 10,
              "an entry has 10 bits for the generation");
static_assert(sizeof(struct object_id) == 12, "on disk");

/* ---- an entry ---- */

void entry_key(const struct object_id *id, uint32_t unit, uint8_t ret[ENTRY_KEY_BYTES])
{
    memcpy(ret, id->bytes, sizeof(id->bytes));
    uint32_t big = __builtin_bswap32(unit);
    memcpy(ret + 12, &big, 4);
}

uint32_t entry_key_unit(const uint8_t key[ENTRY_KEY_BYTES])
{
    uint32_t big;
    memcpy(&big, key + 12, 4);
    return __builtin_bswap32(big);
}

static uint32_t entry_crc(const uint8_t key[ENTRY_KEY_BYTES], const struct disk_entry *disk)
{
    return crc32c(crc32c(0, key, ENTRY_KEY_BYTES), disk, offsetof(struct disk_entry, crc));
}

bool entry_key_next(struct object_id *id, uint32_t *unit)
{
    if (++*unit)
        return true;
    for (size_t i = sizeof(id->bytes); i-- > 0;)
        if (++id->bytes[i])
            return true;
    return false;
}

void entry_encode(const struct entry *entry, const uint8_t key[ENTRY_KEY_BYTES],
                  uint8_t ret[ENTRY_BYTES])
{
    check(entry->len <= ENTRY_LEN_MASK && entry->generation < GENERATIONS);
    struct disk_entry disk = {
        .extent = entry->extent,
        .offset = entry->offset | (entry->refused ? OFFSET_REFUSED : 0u),
        .ordinal = entry->ordinal,
        .len_flags = entry->len | (entry->whole ? ENTRY_WHOLE : 0) |
                     entry->generation << ENTRY_GENERATION_SHIFT,
        .etag_hash = entry->etag_hash,
        .mark = entry->mark,
    };
    disk.crc = entry_crc(key, &disk);
    memcpy(ret, &disk, sizeof(disk));
}

enum err entry_decode(const uint8_t key[ENTRY_KEY_BYTES], slice value, struct entry *ret)
{
    struct disk_entry disk;
    uint32_t unit = entry_key_unit(key);
    if (value.len != sizeof(disk) || (unit >= UNITS_MAX && unit != METADATA_UNIT))
        return ERR_GONE;
    memcpy(&disk, value.ptr, sizeof(disk));
    if (guard_on(GUARD_CRC) && disk.crc != entry_crc(key, &disk))
        return ERR_GONE;
    *ret = (struct entry){
        .extent = disk.extent,
        .offset = disk.offset,
        .ordinal = disk.ordinal,
        .len = disk.len_flags & ENTRY_LEN_MASK,
        .whole = disk.len_flags & ENTRY_WHOLE,
        .generation = disk.len_flags >> ENTRY_GENERATION_SHIFT,
        .etag_hash = disk.etag_hash,
        .mark = disk.mark,
    };
    if (ret->whole || unit == METADATA_UNIT) {
        ret->refused = ret->offset & OFFSET_REFUSED;
        ret->offset &= ~(uint32_t)OFFSET_REFUSED;
    }
    return OK;
}

/* ---- a record ---- */

static uint32_t blocks_of(uint32_t data_len)
{
    return (data_len + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

uint32_t record_blocks(const struct record *record)
{
    return blocks_of(record->data_len);
}

uint32_t record_units(const struct record *record)
{
    return record->kind == KIND_UNITS ? (record->data_len + UNIT_BYTES - 1) / UNIT_BYTES : 1;
}

uint32_t record_header_bytes(uint32_t data_len)
{
    return (uint32_t)offsetof(struct record, crc) + 4 * blocks_of(data_len);
}

uint64_t record_data_at(uint64_t offset, uint32_t data_len, uint32_t metadata_len)
{
    uint64_t at = offset + record_header_bytes(data_len) + metadata_len;
    return data_len >= UNIT_BYTES ? round_up(at, PAGE_BYTES) : at;
}

uint64_t record_end(uint64_t offset, const struct record *record)
{
    return record_data_at(offset, record->data_len, record->metadata_len) + record->data_len;
}

uint32_t unit_len(const struct metadata *metadata, uint32_t unit)
{
    uint64_t start = (uint64_t)unit * UNIT_BYTES;
    return start < metadata->size ? (uint32_t)MIN(UNIT_BYTES, metadata->size - start) : 0;
}

static uint32_t record_crc(const struct record *record)
{
    uint32_t crc = crc32c(0, record, offsetof(struct record, header_crc));
    return crc32c(crc, record->crc, 4u * record->blocks);
}

void record_encode(const struct record *record, uint8_t ret[RECORD_HEADER_MAX])
{
    struct record disk = *record;
    check(record->data_len <= RECORD_BYTES_MAX && record->metadata_len <= METADATA_BLOCK_MAX);
    disk.magic = RECORD_MAGIC;
    disk.blocks = (uint8_t)record_blocks(record);
    disk.header_crc = record_crc(&disk);
    memcpy(ret, &disk, record_header_bytes(record->data_len));
}

enum err record_decode(slice bytes, struct record *ret)
{
    struct record disk = { .magic = 0 };
    size_t fixed = offsetof(struct record, crc);
    if (bytes.len < fixed)
        return ERR_GONE;
    memcpy(&disk, bytes.ptr, fixed);
    if (disk.magic != RECORD_MAGIC || disk.blocks > RECORD_BLOCKS ||
        bytes.len < fixed + 4u * disk.blocks)
        return ERR_GONE;
    memcpy(disk.crc, bytes.ptr + fixed, 4u * disk.blocks);
    if (guard_on(GUARD_CRC) && disk.header_crc != record_crc(&disk))
        return ERR_GONE;
    struct toc_entry entry = toc_entry_of(&disk, 0);
    if (!toc_entry_is_valid(&entry) || blocks_of(disk.data_len) != disk.blocks)
        return ERR_GONE;
    *ret = disk;
    return OK;
}

void record_entry(const struct record *record, uint64_t offset, uint32_t index, uint32_t generation,
                  uint32_t *ret_unit, struct entry *ret)
{
    check(offset % RECORD_ALIGN == 0 && offset <= UINT32_MAX);
    *ret = (struct entry){
        .extent = record->extent,
        .offset = (uint32_t)offset,
        .ordinal = record->ordinal,
        .generation = generation,
        .etag_hash = record->etag_hash,
    };
    if (record->kind != KIND_UNITS) {
        *ret_unit = record->first_unit;
        ret->whole = record->kind == KIND_WHOLE;
        ret->len = ret->whole ? record->data_len : record->metadata_len;
        ret->mark = record->mark;
        return;
    }
    check(index < record_units(record));
    uint32_t start = index * UNIT_BYTES;
    *ret_unit = record->first_unit + index;
    ret->offset = (uint32_t)record_data_at(offset, record->data_len, record->metadata_len) + start;
    ret->len = MIN(UNIT_BYTES, record->data_len - start);
    ret->mark = record->crc[2 * index];
    if (ret->len > BLOCK_BYTES)
        ret->mark |= (uint64_t)record->crc[2 * index + 1] << 32;
}

uint32_t block_crc(const struct object_id *id, uint64_t etag_hash, uint32_t unit, const void *bytes,
                   size_t len)
{
    return crc32c(crc_seed(id, etag_hash, unit), bytes, len);
}

/* ---- the metadata block ---- */

size_t metadata_block_bytes(const struct metadata *metadata)
{
    return sizeof(struct disk_metadata) + metadata->name.len + metadata->etag.len +
           metadata->fields.len;
}

void metadata_block_encode(const struct metadata *metadata, uint8_t *ret)
{
    struct disk_metadata disk = {
        .size = metadata->size,
        .modified_s = metadata->modified_s,
        .flags = (metadata->full ? METADATA_FULL : 0u) |
                 (metadata->unshared ? METADATA_UNSHARED : 0u),
        .name_len = (uint32_t)metadata->name.len,
        .etag_len = (uint32_t)metadata->etag.len,
        .fields_len = (uint32_t)metadata->fields.len,
    };
    memcpy(ret, &disk, sizeof(disk));
    check(metadata_block_bytes(metadata) <= METADATA_BLOCK_MAX);
    char *to = (char *)ret + sizeof(disk);
    to += slice_put(to, metadata->name);
    to += slice_put(to, metadata->etag);
    slice_put(to, metadata->fields);
}

/* The text is: endpoint NUL bucket NUL key NUL version. Only the key may contain a NUL. */
static bool name_split(slice all, struct object_name *ret)
{
    ret->endpoint = slice_cut(&all, '\0');
    if (!all.ptr)
        return false;
    ret->bucket = slice_cut(&all, '\0');
    const char *last = all.ptr ? memrchr(all.ptr, '\0', all.len) : NULL;
    if (!last)
        return false;
    size_t key_len = (size_t)(last - all.ptr);
    ret->key = slice_sub(all, 0, key_len);
    ret->version = slice_from(all, key_len + 1);
    return true;
}

struct metadata *metadata_block_decode(const struct object_id *id, slice bytes)
{
    struct disk_metadata disk;
    if (bytes.len < sizeof(disk))
        return NULL;
    memcpy(&disk, bytes.ptr, sizeof(disk));
    slice rest = slice_from(bytes, sizeof(disk));
    uint64_t total = (uint64_t)disk.name_len + disk.etag_len + disk.fields_len;
    struct object_name name;
    if (total != rest.len || disk.flags > (METADATA_FULL | METADATA_UNSHARED) ||
        !name_split(slice_sub(rest, 0, disk.name_len), &name))
        return NULL;
    slice etag = slice_sub(rest, disk.name_len, disk.etag_len);
    slice fields = slice_from(rest, (size_t)disk.name_len + disk.etag_len);
    struct metadata *metadata = metadata_new(id, &name, etag, fields, disk.size, disk.modified_s,
                                             disk.flags & METADATA_FULL);
    metadata->unshared = disk.flags & METADATA_UNSHARED;
    return metadata;
}

bool toc_name_of(slice metadata_block, struct toc_name *ret)
{
    struct disk_metadata disk;
    if (metadata_block.len < sizeof(disk))
        return false;
    memcpy(&disk, metadata_block.ptr, sizeof(disk));
    if (disk.name_len > metadata_block.len - sizeof(disk))
        return false;
    *ret = (struct toc_name){ disk.size, slice_sub(metadata_block, sizeof(disk), disk.name_len) };
    return true;
}

/* ---- the format file ---- */

static const char format_magic[8] = "PENSTOCK";

uint32_t format_place(const struct format *format, const uint8_t id[VOLUME_ID_BYTES])
{
    uint32_t i = 0;
    while (i < format->volume_count && memcmp(format->volumes[i].id, id, VOLUME_ID_BYTES) != 0)
        i++;
    return i;
}

uint64_t format_shared(const struct format *format, const uint8_t id[VOLUME_ID_BYTES])
{
    uint32_t place = format_place(format, id);
    return place < format->volume_count ? format->shared[place] : 0;
}

static size_t end_with_crc(uint8_t *bytes, size_t len)
{
    uint32_t crc = crc32c(0, bytes, len);
    memcpy(bytes + len, &crc, sizeof(crc));
    return len + sizeof(crc);
}

static size_t encode_copy(const struct format *format, uint8_t *ret)
{
    struct disk_format disk = {
        .version = FORMAT_VERSION, .generation = format->generation,
        .size_bytes = format->size_bytes, .opening = format->opening,
        .extent_bytes = format->extent_bytes, .weight = format->weight,
        .serial = format->serial, .volume_count = format->volume_count,
    };
    check(format->generation < GENERATIONS);
    check(format->volume_count > 0 && format->volume_count <= VOLUMES_MAX);
    memcpy(disk.magic, format_magic, sizeof(format_magic));
    memcpy(disk.secret, format->secret, sizeof(disk.secret));
    memcpy(disk.volume, format->volume, sizeof(disk.volume));
    memcpy(ret, &disk, sizeof(disk));
    size_t len = sizeof(disk);
    for (uint32_t i = 0; i < format->volume_count; i++, len += sizeof(struct disk_volume)) {
        struct disk_volume row = { .weight = (uint32_t)format->volumes[i].weight,
                                   .shared = format->shared[i] };
        memcpy(row.id, format->volumes[i].id, sizeof(row.id));
        memcpy(ret + len, &row, sizeof(row));
    }
    return end_with_crc(ret, len);
}

/* The secret is in no other place, so a damaged format file would cost all that is in the folder.
 * Hence two copies. The last CRC is that of a format file of any version. */
size_t format_encode(const struct format *format, uint8_t ret[FORMAT_BYTES_MAX])
{
    size_t len = encode_copy(format, ret);
    memcpy(ret + len, ret, len);
    return end_with_crc(ret, 2 * len);
}

static bool has_right_crc(slice bytes)
{
    uint32_t crc;
    if (bytes.len < offsetof(struct disk_format, generation) + sizeof(crc) ||
        memcmp(bytes.ptr, format_magic, sizeof(format_magic)) != 0)
        return false;
    memcpy(&crc, bytes.ptr + bytes.len - sizeof(crc), sizeof(crc));
    return crc == crc32c(0, bytes.ptr, bytes.len - sizeof(crc));
}

/* Returns the size of a row of the list, or 0 if the list is impossible. */
static size_t volume_bytes(slice bytes, const struct disk_format *disk)
{
    if (disk->volume_count == 0 || disk->volume_count > VOLUMES_MAX || disk->weight == 0 ||
        disk->serial > INT64_MAX || bytes.len < sizeof(*disk) + 4)
        return 0;
    size_t list = bytes.len - sizeof(*disk) - 4, count = disk->volume_count;
    return list == count * sizeof(struct disk_volume) ? sizeof(struct disk_volume)
           : list == count * OLD_VOLUME_BYTES         ? OLD_VOLUME_BYTES
                                                      : 0;
}

/* Reads the list. Returns false if it is impossible. */
static bool decode_volumes(slice bytes, const struct disk_format *disk, struct format *ret)
{
    size_t row_bytes = volume_bytes(bytes, disk);
    if (!row_bytes)
        return false;
    ret->volume_count = disk->volume_count;
    for (uint32_t i = 0; i < disk->volume_count; i++) {
        struct disk_volume row = { .shared = 0 };
        memcpy(&row, bytes.ptr + sizeof(*disk) + i * row_bytes, row_bytes);
        if (row.weight == 0 || row.shared > disk->serial)
            return false;
        memcpy(ret->volumes[i].id, row.id, sizeof(row.id));
        ret->volumes[i].weight = row.weight;
        ret->shared[i] = row.shared;
    }
    memcpy(ret->volume, disk->volume, sizeof(ret->volume));
    ret->weight = disk->weight;
    ret->serial = disk->serial;
    return true;
}

/* Decodes one copy, or a file of version 1. */
static bool decode(slice bytes, struct format *ret)
{
    struct disk_format disk = { .version = 0 };
    if (!has_right_crc(bytes))
        return false;
    memcpy(&disk, bytes.ptr, MIN(bytes.len, sizeof(disk)));
    struct format format = { .version = disk.version, .generation = disk.generation,
                             .size_bytes = disk.size_bytes, .opening = disk.opening,
                             .extent_bytes = disk.extent_bytes };
    memcpy(format.secret, disk.secret, sizeof(format.secret));
    bool good = disk.version == 1 ? bytes.len == sizeof(struct disk_format_1)
                                  : disk.version == 2 && decode_volumes(bytes, &disk, &format);
    if (!good || disk.generation >= GENERATIONS)
        return false;
    *ret = format;
    return true;
}

static bool decode_copies(slice bytes, struct format *ret)
{
    size_t len = bytes.len < 4 ? 0 : (bytes.len - 4) / 2;
    return (decode(slice_sub(bytes, 0, len), ret) || decode(slice_sub(bytes, len, len), ret)) &&
           ret->version == FORMAT_VERSION;
}

/* The CRC is verified before the version: a flipped bit must not look like a newer version. */
enum err format_decode(slice bytes, struct format *ret, const char **ret_why)
{
    uint32_t version = 0;
    bool whole = has_right_crc(bytes);
    if (whole)
        memcpy(&version, bytes.ptr + sizeof(format_magic), sizeof(version));
    if (version > FORMAT_VERSION) {
        *ret_why = "a newer Penstock wrote the folder, in a format that this version does not "
                   "know; start that newer version, or " SET_ANOTHER;
        return ERR_FORMAT;
    }
    *ret_why = "the file 'format' was damaged";
    if (version == 1 ? !decode(bytes, ret) : !decode_copies(bytes, ret))
        return ERR_GONE;
    ret->one_copy_damaged = version != 1 && !whole;
    *ret_why = "";
    return OK;
}
