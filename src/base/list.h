/* list.h - intrusive doubly linked lists. SPDX-License-Identifier: Apache-2.0
 *
 * A struct list is either the head of a list or a link in it. An unlinked link points at itself, so
 * list_del may be called twice. The caller must hold the locks that the list needs. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_add(struct list *head, struct list *link)    /* adds the link at the end */
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_del(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Unlinks the first link, and returns it. The list must not be empty. */
static inline struct list *list_take(struct list *head)
{
    struct list *first = head->next;
    list_del(first);
    return first;
}

/* Moves all links of `from` to the end of `to`. */
static inline void list_move(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_of(link, type, member) container_of(link, type, member)

#define list_each(type, item, head, member)                                                    \
    for (type *item = container_of((head)->next, type, member); &item->member != (head);       \
         item = container_of(item->member.next, type, member))

/* The item may be unlinked or freed inside the loop. */
#define list_each_safe(type, item, head, member)                                               \
    for (type *item = container_of((head)->next, type, member),                                \
              *item##_next = container_of(item->member.next, type, member);                    \
         &item->member != (head);                                                              \
         item = item##_next, item##_next = container_of(item->member.next, type, member))

#endif
