/* users.c - which users may connect, and what each holds. SPDX-License-Identifier: Apache-2.0
 *
 * A user is a uid: the kernel reports the uid of the process at the other end of the socket. Each
 * connected user has a row. Threads: any; one lock guards the rows. */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "local/inside.h"

struct users {
    pthread_mutex_t lock;
    bool everybody;
    uint32_t *allowed;
    size_t count;
    struct list rows;
};

static bool uid_of(struct arena *keep, slice name, uint32_t *ret)
{
    uint64_t number;
    if (slice_u64(name, &number) && number < UINT32_MAX) {
        *ret = (uint32_t)number;
        return true;
    }
    slice text = arena_copy(keep, name);
    struct passwd entry, *found = NULL;
    char room[4096];
    if (getpwnam_r(text.ptr, &entry, room, sizeof(room), &found) != 0 || !found)
        return false;
    *ret = entry.pw_uid;
    return true;
}

slice users_name(struct arena *keep, uint32_t uid)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    if (getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found)
        return arena_copy(keep, slice_of(entry.pw_name));
    return arena_printf(keep, "uid %u", (unsigned)uid);
}

enum err users_new(slice list, struct arena *keep, struct users **ret, slice *ret_why)
{
    struct users *users = must_alloc(sizeof(*users));
    check(pthread_mutex_init(&users->lock, NULL) == 0);
    list_init(&users->rows);
    users->allowed = must_alloc((list.len + 2) * sizeof(*users->allowed));
    users->allowed[users->count++] = geteuid();
    while (list.len) {
        slice name = slice_trim(slice_cut(&list, ','));
        if (slice_eq(name, S("*"))) {
            users->everybody = true;
        } else if (name.len && !uid_of(keep, name, &users->allowed[users->count++])) {
            *ret_why = arena_printf(keep, "fill_users has '%.*s', which is not a user of this "
                                    "machine: list user names or numbers, separated by commas, or "
                                    "* for everybody", SLICE_ARG(name));
            users_free(&users);
            return ERR_BAD_ARGUMENT;
        }
    }
    *ret = users;
    return OK;
}

void users_free(struct users **users)
{
    struct users *mine = *users;
    *users = NULL;
    if (!mine)
        return;
    list_each_safe(struct user, user, &mine->rows, link)
        free(user);
    pthread_mutex_destroy(&mine->lock);
    free(mine->allowed);
    free(mine);
}

bool users_allow(const struct users *users, uint32_t uid)
{
    bool found = users->everybody;
    for (size_t i = 0; i < users->count && !found; i++)
        found = users->allowed[i] == uid;
    return found;
}

static struct user *find(struct users *users, uint32_t uid)    /* the caller holds the lock */
{
    list_each(struct user, user, &users->rows, link)
        if (user->uid == uid)
            return user;
    struct user *user = must_alloc(sizeof(*user));
    user->uid = uid;
    list_add(&users->rows, &user->link);
    return user;
}

struct user *users_enter(struct users *users, uint32_t uid, unsigned sessions_max)
{
    pthread_mutex_lock(&users->lock);
    struct user *user = find(users, uid);
    if (user->sessions < sessions_max)
        user->sessions++;
    else
        user = NULL;
    pthread_mutex_unlock(&users->lock);
    return user;
}

/* Frees the row when the user's last session leaves, because with fill_users="*" the number of
 * users has no limit. */
void users_leave(struct users *users, struct user **user)
{
    struct user *mine = *user;
    *user = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&users->lock);
    check(mine->sessions > 0);
    if (--mine->sessions == 0) {
        check(mine->bytes == 0 && atomic_load(&mine->list_bytes) == 0);
        list_del(&mine->link);
        free(mine);
    }
    pthread_mutex_unlock(&users->lock);
}

size_t users_read(struct users *users, struct local_user *ret, size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&users->lock);
    list_each(struct user, user, &users->rows, link)
        if (user->sessions > 0 && count < max)
            ret[count++] = (struct local_user){ user->uid, user->sessions, user->bytes };
    pthread_mutex_unlock(&users->lock);
    return count;
}

bool users_take_bytes(struct users *users, struct user *user, uint64_t bytes, uint64_t bytes_max)
{
    pthread_mutex_lock(&users->lock);
    bool fits = user->bytes <= bytes_max && bytes <= bytes_max - user->bytes;
    if (fits)
        user->bytes += bytes;
    pthread_mutex_unlock(&users->lock);
    return fits;
}

void users_give_bytes(struct users *users, struct user *user, uint64_t bytes)
{
    pthread_mutex_lock(&users->lock);
    check(user->bytes >= bytes);
    user->bytes -= bytes;
    pthread_mutex_unlock(&users->lock);
}
