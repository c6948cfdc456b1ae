/* index_memo.c - look-ups that need no transaction. SPDX-License-Identifier: Apache-2.0
 *
 * A hit looks up the same entry again and again, and a transaction with all its checks costs more
 * than the rest of such a look-up. So the entry of a WHOLE record is kept with the object's
 * metadata, together with the number of the commit that it was read from. The index has a row of
 * marks, and each change of an entry writes the number of its transaction into the mark of the
 * object, before the transaction is committed. If the mark is not newer than the kept entry, the
 * entry is what a transaction would find now, or would have found just before a commit that is in
 * progress. Several objects share a mark, and then cost one another a look-up.
 *
 * A transaction that fails leaves its marks. Their objects are looked up until a transaction with
 * the same number is committed. Numbers begin anew with each index, so each opening of an index has
 * a number of its own in this process. A closed index has none. */
#include "store/index_inside.h"

#include <assert.h>
#include <string.h>

#define OPENING_SHIFT 40              /* of as_of: commits have the bits below */

static_assert(sizeof(struct entry) == INDEX_MEMO_WORDS * sizeof(uint64_t), "a memo has one entry");

static _Atomic uint64_t *mark_of(struct index *index, const uint8_t *id)
{
    return &index->marks.row[(id[2] | (unsigned)id[3] << 8) % INDEX_MARKS];
}

void index_memos_begin(struct index *index)
{
    static atomic_uint openings;
    for (size_t i = 0; i < INDEX_MARKS; i++)
        atomic_store_explicit(&index->marks.row[i], 0, memory_order_release);
    atomic_store(&index->marks.opening, 1 + atomic_fetch_add(&openings, 1) % 0xffffffu);
}

void index_memos_end(struct index *index)
{
    atomic_store(&index->marks.opening, 0);
}

void index_memos_change(struct index *index, slice key, uint64_t transaction)
{
    if (key.len == ENTRY_KEY_BYTES)
        atomic_store(mark_of(index, (const uint8_t *)key.ptr), transaction);
}

/* Copies the memo. Returns false if another thread writes it. */
static bool copy(const struct index_memo *memo, uint64_t *ret_as_of, struct entry *ret)
{
    uint64_t words[INDEX_MEMO_WORDS];
    unsigned turn = atomic_load_explicit(&memo->turn, memory_order_acquire);
    *ret_as_of = atomic_load_explicit(&memo->as_of, memory_order_acquire);
    for (size_t i = 0; i < INDEX_MEMO_WORDS; i++)
        words[i] = atomic_load_explicit(&memo->words[i], memory_order_acquire);
    if (turn % 2 || atomic_load_explicit(&memo->turn, memory_order_relaxed) != turn)
        return false;
    memcpy(ret, words, sizeof(*ret));
    return true;
}

static bool recall(struct index *index, const struct object_id *id, const struct index_memo *memo,
                   struct entry *ret)
{
    uint64_t as_of;
    if (!copy(memo, &as_of, ret) || index_is_bad(index))
        return false;
    uint64_t mark = atomic_load(mark_of(index, id->bytes));    /* first: 0 after an opening */
    uint32_t opening = atomic_load(&index->marks.opening);
    return opening && as_of >> OPENING_SHIFT == opening &&
           mark <= as_of % ((uint64_t)1 << OPENING_SHIFT);
}

/* Does nothing if another thread writes the memo. */
static void remember(struct index_memo *memo, uint64_t as_of, const struct entry *entry)
{
    uint64_t words[INDEX_MEMO_WORDS];
    memcpy(words, entry, sizeof(*entry));
    unsigned turn = atomic_load_explicit(&memo->turn, memory_order_relaxed);
    if (turn % 2 || !atomic_compare_exchange_strong(&memo->turn, &turn, turn + 1))
        return;
    atomic_store_explicit(&memo->as_of, as_of, memory_order_release);
    for (size_t i = 0; i < INDEX_MEMO_WORDS; i++)
        atomic_store_explicit(&memo->words[i], words[i], memory_order_release);
    atomic_store_explicit(&memo->turn, turn + 2, memory_order_release);
}

uint32_t index_recall_run(struct index *index, const struct object_id *id, uint32_t first,
                          uint32_t count, struct entry *ret, struct index_memo *memo)
{
    if (recall(index, id, memo, ret))
        return 1;
    uint64_t opening = atomic_load(&index->marks.opening), number = 0;    /* before the look-up */
    uint32_t found = index_get_run_as_of(index, id, first, count, ret, &number);
    if (found && ret[0].whole && number < (uint64_t)1 << OPENING_SHIFT)
        remember(memo, opening << OPENING_SHIFT | number, &ret[0]);
    return found;
}
