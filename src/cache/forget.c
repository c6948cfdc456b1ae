/* forget.c - removes stored metadata that the origin has contradicted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cache/forget.h"

#include <stdlib.h>

struct forgetting {
    struct store_removal removal;
    struct object_id id;
};

static void removed(struct store_removal *removal, enum err err)
{
    (void)err;    /* a folder out of service serves nothing either */
    free(container_of(removal, struct forgetting, removal));
}

static void remove_stored(struct store *store, const struct object_id *id,
                          struct store_versions versions)
{
    struct forgetting *forgetting = must_alloc(sizeof(*forgetting));
    forgetting->id = *id;
    forgetting->removal = (struct store_removal){ .ids = &forgetting->id, .count = 1,
                                                  .versions = versions, .unawaited = true,
                                                  .done = removed };
    store_remove(store, &forgetting->removal);
}

void forget_object(struct store *store, const struct object_id *id)
{
    if (store_knows(store, id, NULL))
        remove_stored(store, id, (struct store_versions){ .which = VERSIONS_ALL });
}

static void forget(struct store *store, const struct object_id *id, struct store_versions versions)
{
    if (store_may_have(store, id, &versions))
        remove_stored(store, id, versions);
}

void forget_version(struct store *store, const struct metadata *older)
{
    forget(store, &older->id, store_version_of(older));
}

void forget_other_version(struct store *store, const struct metadata *newest)
{
    forget(store, &newest->id, store_versions_but(newest));
}
