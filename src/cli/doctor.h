/* doctor.h - what the files of `penstock doctor` share. SPDX-License-Identifier: Apache-2.0
 *
 * A finding is a row of the table: a place in the way of a byte, what was measured there, and a
 * grade. Each file adds the findings of some places. doctor.c prints them, and names the narrowest
 * place. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/show.h"

/* In the order of weight. UNKNOWN: not measured. LIMITED: it works, and could be faster. */
enum doctor_grade { UNKNOWN, GOOD, LIMITED, SLOW, BROKEN };

struct finding {
    slice place, measured, usual;
    enum doctor_grade grade;
    double factor;                /* how many times worse than the limit; the worst is narrowest */
    slice advice;                 /* sentences: what is wrong, and what to do */
};

#define FINDINGS_MAX 64u
struct doctor {
    struct arena *keep;
    const struct config *config;
    struct memory memory;
    bool offline;                 /* no other machine is asked */
    struct s3_url object;         /* for the origin's bandwidth; bucket empty: it is searched */
    uint64_t fetch_bytes;         /* at most so many bytes are fetched for it, from each origin */
    json_t *status;               /* of the running service; NULL: none answered */
    slice metrics;                /* of the running service; or empty */
    struct finding findings[FINDINGS_MAX];
    size_t count;
};

/* Adds a row. Texts must live as long as doctor->keep. */
struct finding *doctor_add(struct doctor *doctor, slice place, slice measured, slice usual);
void doctor_grade(struct finding *finding, enum doctor_grade grade, double factor, slice advice);
/* The same for a figure that should be below `limit`: SLOW above it. */
void doctor_judge(struct finding *finding, double value, double limit, slice advice);
/* Returns the heaviest finding, or NULL if all are good or unknown. */
const struct finding *doctor_narrowest(const struct doctor *doctor);

/* ---- doctor_machine.c: checksum, loopback, clock, locked memory, io_uring, page cache ---- */
void doctor_machine(struct doctor *doctor);
/* Compares this machine's clock with the time that an origin sent; 0: it sent none. */
void doctor_clock(struct doctor *doctor, int64_t origin_s);
/* ---- doctor_disk.c: cache folders and indexes ---- */
void doctor_disks(struct doctor *doctor);
/* ---- doctor_origin.c: DNS, first byte, bandwidth ---- */
void doctor_origins(struct doctor *doctor);
/* ---- doctor_service.c: figures of the running service ---- */
void doctor_find_service(struct doctor *doctor);    /* sets status and metrics */
void doctor_service(struct doctor *doctor);

/* Returns the value at a path of names with dots between them, or NULL. */
json_t *doctor_value(const json_t *root, const char *path);
/* Returns the sum of a metric over its labels, in a text of metrics; 0 if it is not there. With
 * labels in the name, it must be that sample. */
double doctor_metric(slice metrics, slice name);

/* ---- doctor_while.c: what the requests of a command waited for ---- */
int doctor_while(struct doctor *doctor, const char *const *command, size_t count, bool json);

#endif
