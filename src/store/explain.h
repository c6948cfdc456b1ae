/* explain.h - what the store has of one object, for people. SPDX-License-Identifier: Apache-2.0
 *
 * Reads the index and RAM, never the bytes. Any thread. */
#ifndef STORE_EXPLAIN_H
#define STORE_EXPLAIN_H

#include "store/events.h"
#include "store/format.h"

/* The place of a record, or the reasons why it is missing. */
struct explain_record {
    size_t folder;                    /* by the order of the settings: the home of the record */
    bool serving;                     /* that folder is in service */
    bool stored;
    uint32_t extent;                  /* of a stored record */
    /* Reads of the folder's records since this one was read, as a share of L, the mean interval
     * between two reads of a record (mean_age.h). Negative: L is not known yet. */
    double age;
    struct event kept_out, taken_out;    /* the latest ones */
};
struct explain_metadata {
    struct explain_record record;
    bool whole;                       /* with all bytes of the object, in one record */
};
void explain_metadata(struct store *store, const struct object_id *id,
                      const struct object_name *name, struct explain_metadata *ret);
/* Describes the record that has this unit of the object. Returns the number of units from `unit` on
 * that are alike, at least 1 and at most `count`: units of one record, or missing ones in a row. */
uint32_t explain_units(struct store *store, const struct metadata *metadata, uint32_t unit,
                       uint32_t count, struct explain_record *ret);
/* Returns the age of the object's record that was read last; `metadata` is the entry of its
 * metadata. Negative: not known. */
double explain_age(struct store *store, const struct object_id *id, const struct entry *metadata);
/* Returns the lower one of two ages. A negative age is not known. Pure. */
double explain_younger(double a, double b);

#endif
