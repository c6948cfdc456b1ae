/* follow.c - how far the readers of a list have come. SPDX-License-Identifier: Apache-2.0
 *
 * The items from the position on are in a ring, by their index. Unread items are also in chains, by
 * their hash, the oldest first. */
#include "jobs/follow.h"

#include <stdlib.h>

#define CHAINS FOLLOW_ITEMS
#define NONE UINT32_MAX
#define LATEST 16u

struct row {
    uint64_t hash, bytes;             /* bytes: what the job has brought */
    uint32_t next;                    /* in its chain: a place of the ring, or NONE */
    bool read;
};

struct follow {
    struct row rows[FOLLOW_ITEMS];
    uint32_t chains[CHAINS];          /* the first row of each chain, or NONE */
    uint32_t tails[CHAINS];           /* the last row of each chain that is not empty */
    uint64_t position, end;           /* indices: of the oldest unread item; behind the last item */
    uint64_t high;                    /* behind the highest item that was read */
    uint64_t reached;                 /* the highest item that the readers have reached so far */
    uint64_t latest[LATEST];          /* the indices of the latest reads: a ring, by their number */
    struct follow_use use;
    struct follow_use judged;         /* at the last judgement */
    unsigned wasted;                  /* what follow_judge returns */
};

struct follow *follow_new(void)
{
    struct follow *follow = must_alloc(sizeof(*follow));
    for (size_t i = 0; i < CHAINS; i++)
        follow->chains[i] = NONE;
    return follow;
}

void follow_free(struct follow **follow)
{
    free(*follow);
    *follow = NULL;
}

static struct row *row_at(const struct follow *follow, uint64_t index)
{
    return &((struct follow *)follow)->rows[index % FOLLOW_ITEMS];
}

static uint32_t *chain_of(struct follow *follow, uint64_t hash)
{
    return &follow->chains[hash % CHAINS];
}

bool follow_is_full(const struct follow *follow)
{
    return follow->end - follow->position == FOLLOW_ITEMS;
}

uint64_t follow_add(struct follow *follow, uint64_t hash)
{
    check(!follow_is_full(follow));
    uint32_t *first = chain_of(follow, hash), *tail = &follow->tails[hash % CHAINS];
    uint32_t at = (uint32_t)(follow->end % FOLLOW_ITEMS);
    *(*first == NONE ? first : &follow->rows[*tail].next) = at;
    *tail = at;
    follow->rows[at] = (struct row){ .hash = hash, .next = NONE };
    return follow->end++;
}

/* Takes a row out of its chain. */
static void unlink_row(struct follow *follow, struct row *row)
{
    uint32_t *link = chain_of(follow, row->hash), at = (uint32_t)(row - follow->rows), last = NONE;
    while (*link != at) {
        check(*link != NONE);
        last = *link;
        link = &follow->rows[last].next;
    }
    *link = row->next;
    if (row->next == NONE)
        follow->tails[row->hash % CHAINS] = last;
}

/* Returns the index of the item that the readers have reached, by their latest reads (follow.h). */
static uint64_t reached_now(const struct follow *follow)
{
    uint64_t found = 0;
    if (follow->use.items_read < LATEST)
        return 0;
    for (size_t i = 0; i < LATEST; i++) {
        unsigned there = 0;
        for (size_t j = 0; j < LATEST; j++)
            there += follow->latest[j] >= follow->latest[i];
        if (there >= LATEST / 2)
            found = MAX(found, follow->latest[i]);
    }
    return found;
}

static void reach(struct follow *follow)
{
    uint64_t now = reached_now(follow);
    for (uint64_t i = MAX(follow->reached, follow->position); i < now; i++) {
        const struct row *row = row_at(follow, i);
        follow->use.ahead -= row->read ? 0 : row->bytes;
        follow->use.behind += row->read ? 0 : row->bytes;
    }
    follow->reached = MAX(follow->reached, now);
}

/* Returns the count of bytes that an unread item belongs to. */
static uint64_t *count_of(struct follow *follow, uint64_t index)
{
    return index < follow->reached ? &follow->use.behind : &follow->use.ahead;
}

static void move_on(struct follow *follow)
{
    for (; follow->position < follow->high; follow->position++) {
        struct row *row = row_at(follow, follow->position);
        if (!row->read && follow->reached <= follow->position + FOLLOW_BEHIND)
            return;
        if (row->read)
            continue;
        unlink_row(follow, row);
        follow->use.behind -= row->bytes;
        follow->use.passed += row->bytes;
    }
}

bool follow_read(struct follow *follow, uint64_t hash)
{
    uint32_t at = *chain_of(follow, hash);
    while (at != NONE && follow->rows[at].hash != hash)
        at = follow->rows[at].next;
    if (at == NONE)
        return false;
    struct row *row = &follow->rows[at];
    uint64_t index = follow->position + (at + FOLLOW_ITEMS - follow->position % FOLLOW_ITEMS) %
                                        FOLLOW_ITEMS;
    unlink_row(follow, row);
    row->read = true;
    *count_of(follow, index) -= row->bytes;
    follow->use.read += row->bytes;
    follow->high = MAX(follow->high, index + 1);
    follow->latest[follow->use.items_read++ % LATEST] = index;
    reach(follow);
    move_on(follow);
    return true;
}

void follow_brought(struct follow *follow, uint64_t index, uint64_t bytes)
{
    check(index < follow->end);
    struct row *row = row_at(follow, index);
    if (index < follow->position)     /* the reader was faster, or has passed it */
        return;
    check(!row->bytes);
    row->bytes = bytes;
    *(row->read ? &follow->use.read : count_of(follow, index)) += bytes;
}

bool follow_is_past(const struct follow *follow, uint64_t index)
{
    check(index < follow->end);
    return index < MAX(follow->position, follow->reached) || row_at(follow, index)->read;
}

uint64_t follow_position(const struct follow *follow)
{
    return follow->position;
}

uint64_t follow_end(const struct follow *follow)
{
    return follow->end;
}

const struct follow_use *follow_use(const struct follow *follow)
{
    return &follow->use;
}

unsigned follow_judge(struct follow *follow, uint64_t window)
{
    uint64_t read = follow->use.read - follow->judged.read;
    uint64_t passed = follow->use.passed - follow->judged.passed;
    if (read + passed >= window) {
        follow->wasted = read < passed ? follow->wasted + 1 : 0;
        follow->judged = follow->use;
    }
    return follow->wasted;
}
