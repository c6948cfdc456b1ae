/* index_memo.h - an index entry that is kept with metadata. SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_MEMO_H
#define STORE_INDEX_MEMO_H

#include <stdatomic.h>
#include <stdint.h>

#define INDEX_MEMO_WORDS 5u           /* of a struct entry (format.h) */

/* The WHOLE entry that the latest look-up found. Zeroed: none. Any thread, by index.h alone. */
struct index_memo {
    atomic_uint turn;                 /* odd: a thread writes the members below */
    _Atomic uint64_t as_of;           /* an opening of an index, and a commit (index_memo.c) */
    _Atomic uint64_t words[INDEX_MEMO_WORDS];
};

#endif
