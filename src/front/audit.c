/* audit.c - a line for each action that an operator may have to account for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Purges, pins, unpins, and the start and end of jobs leave a line "audit": who did it, from where,
 * what, and with which result. So does an attempt that was refused, and a purge of which another
 * node has told this one. Penstock writes the line when the result is known, also if the client has
 * left by then, and whether the access log is on or off. (cli/serve.c writes the line of a reload.)
 * Threads: a loop begins a line, any thread ends it. */
#include "base/log.h"
#include "front/inside.h"

slice audit_word(struct arena *keep, slice value)
{
    slice escaped = log_word(keep, value);
    return escaped.len ? escaped : S("-");
}

/* A dry run changes nothing. */
static bool is_audited(const struct call *call)
{
    switch (call->s3.op) {
    case S3_PURGE: return !s3_param_get(&call->s3, S("dry-run"));
    case S3_PIN:
    case S3_UNPIN:
    case S3_JOB_START:
    case S3_JOB_CANCEL: return true;
    default: return false;
    }
}

/* The prefix, the key or the job that the query names. */
static void add_target(struct text *to, struct arena *keep, const struct s3_request *s3)
{
    static const char *const names[] = { "prefix", "key", "penstock-job" };
    for (size_t i = 0; i < countof(names); i++) {
        const struct s3_param *param = s3_param_get(s3, slice_of(names[i]));
        if (param && (param->value.len || i == 0))
            text_printf(to, " %s=%.*s", i == 2 ? "job" : names[i],
                        SLICE_ARG(audit_word(keep, param->value)));
    }
}

struct audit audit_begin(const struct call *call, struct arena *keep)
{
    struct text what = text_in(keep);
    check(is_audited(call));
    text_printf(&what, "bucket=%.*s", SLICE_ARG(audit_word(keep, call->s3.bucket)));
    add_target(&what, keep, &call->s3);
    return (struct audit){
        .who = arena_printf(keep, "action=%s who=%.*s from=%.*s id=%.*s", s3_op_name(call->s3.op),
                            SLICE_ARG(audit_word(keep, call->access_key)),
                            SLICE_ARG(call->access.peer), SLICE_ARG(call->id)),
        .what = text_slice(&what),
    };
}

struct audit audit_begin_hint(const struct hint *hint, slice node, slice from, struct arena *keep)
{
    return (struct audit){
        .who = arena_printf(keep, "action=%s who=peer:%.*s from=%.*s", s3_op_name(S3_PURGE),
                            SLICE_ARG(audit_word(keep, node)), SLICE_ARG(from)),
        .what = arena_printf(keep, "bucket=%.*s %s=%.*s", SLICE_ARG(audit_word(keep, hint->bucket)),
                             hint->what == HINT_PURGE_KEY ? "key" : "prefix",
                             SLICE_ARG(audit_word(keep, hint->key))),
    };
}

void audit_end(const struct audit *audit, enum err err, slice more)
{
    log_info("audit", "%.*s result=%s %.*s%.*s", SLICE_ARG(audit->who), err_name(err),
             SLICE_ARG(audit->what), SLICE_ARG(more));
}

void audit_refused(const struct call *call)
{
    if (!is_audited(call))
        return;
    struct audit audit = audit_begin(call, call->keep);
    audit_end(&audit, call->err, S(""));
}
