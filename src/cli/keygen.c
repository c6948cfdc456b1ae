/* keygen.c - penstock peers keygen: certificates for the nodes of a fleet.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     FOLDER/ca.pem      the CA of the fleet: for every node
 *     FOLDER/ca.key      its private key: for further certificates alone
 *     FOLDER/node.pem    a certificate and its private key, in one file
 *
 * All certificates have one name, which stands for the fleet (the setting peer_name), so the same
 * file does for all nodes; --node makes a file for a single one. A file is written under its own
 * name, and never over another one. If a later file can't be written, the earlier ones go. */
#include "cli/keygen.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/authority.h"
#include "s3/encode.h"

#define NAME_DEFAULT "fleet.internal"
#define DAYS_DEFAULT "365"
#define DAYS_MAX 3650u
#define CA_DAYS 3650u
#define FILE_BYTES_MAX (64u * 1024)
#define INSTALLED "/etc/penstock/peers"    /* where the messages put the files */

struct keygen {
    struct arena *keep;
    const char *folder, *node, *peers;
    const char *name;                 /* setting peer_name; empty: not set */
    uint64_t days;
    const char *ca, *ca_key, *node_file;    /* paths */
    const char *made[3];              /* files that this run has written */
    size_t made_count;
};

#define failed(...) (fprintf(stderr, "penstock peers keygen: " __VA_ARGS__), EXIT_FAILED)

/* ---- files ---- */

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool write_all(int fd, slice text)
{
    while (text.len) {
        ssize_t len = write(fd, text.ptr, text.len);
        if (len < 0 && errno == EINTR)
            continue;
        if (len <= 0)
            return false;
        text = slice_from(text, (size_t)len);
    }
    return fsync(fd) == 0;
}

static int write_file(struct keygen *keygen, const char *path, mode_t mode, slice text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return failed("can't make %s: %s. Name a folder in which you may write\n", path,
                      strerror(errno));
    keygen->made[keygen->made_count++] = path;
    bool good = write_all(fd, text);
    int why = errno;
    good = close(fd) == 0 && good;
    return good ? EXIT_GOOD : failed("can't write %s: %s. Make room, and try again\n", path,
                                     strerror(why));
}

static void undo(struct keygen *keygen)
{
    while (keygen->made_count)
        (void)unlink(keygen->made[--keygen->made_count]);
}

/* Returns an empty slice after it has reported a failure. */
static slice read_file(struct keygen *keygen, const char *path)
{
    char *text = arena_alloc(keygen->keep, FILE_BYTES_MAX);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, FILE_BYTES_MAX);
    if (len <= 0)
        (void)failed("can't read %s: %s. Run keygen as the user who owns the file\n", path,
                     len < 0 ? strerror(errno) : "it is empty");
    if (fd >= 0)
        close(fd);
    return (slice){ text, len > 0 ? (size_t)len : 0 };
}

/* ---- the authority ---- */

static struct authority *read_authority(struct keygen *keygen)
{
    slice why, cert = read_file(keygen, keygen->ca);
    slice key = cert.len ? read_file(keygen, keygen->ca_key) : S("");
    if (!key.len)
        return NULL;
    struct authority *authority = authority_read(cert, key, &why);
    if (!authority)
        (void)failed("the CA in %s and %s can't be used: %.*s. Restore the two files, or name a new "
                     "folder\n", keygen->ca, keygen->ca_key, SLICE_ARG(why));
    return authority;
}

/* Writes the files of a new authority. */
static int keep_authority(struct keygen *keygen, const struct authority *authority)
{
    int status = write_file(keygen, keygen->ca_key, 0600,
                            authority_key(authority, keygen->keep));
    return status ? status
                  : write_file(keygen, keygen->ca, 0644, authority_cert(authority, keygen->keep));
}

/* Reads the authority of the folder, or makes one. Returns NULL after it has reported a failure. */
static struct authority *find_authority(struct keygen *keygen)
{
    bool cert = exists(keygen->ca), key = exists(keygen->ca_key);
    const char *name = keygen->name[0] ? keygen->name : NAME_DEFAULT;
    if (cert && key)
        return read_authority(keygen);
    if (cert || key) {
        (void)failed("%s has %s, and not %s: a certificate needs both. Copy the other file there, "
                     "or name a new folder\n", keygen->folder, cert ? "ca.pem" : "ca.key",
                     cert ? "ca.key" : "ca.pem");
        return NULL;
    }
    struct authority *authority = authority_new(name, CA_DAYS);
    if (!authority)
        (void)failed("OpenSSL can't make a key: check the OpenSSL configuration of this machine "
                     "(openssl.cnf)\n");
    if (authority && keep_authority(keygen, authority))
        authority_free(&authority);
    return authority;
}

/* ---- what to do with the files ---- */

static void print_files(const struct keygen *keygen)
{
    for (size_t i = 0; i < keygen->made_count; i++) {
        const char *path = keygen->made[i];
        printf("wrote %s: %s\n", path, path == keygen->ca ? "the CA of the fleet"
               : path == keygen->ca_key ? "the private key of the CA, for further certificates. Keep "
                                          "it where only you can read it, and on no node"
                                        : "certificate and private key of a node");
    }
}

static void print_advice(const struct keygen *keygen, const char *name, int64_t ends_s)
{
    printf("\nThe certificate is valid until %.*s. Penstock warns 21 days before (tls_expires).\n\n"
           "On each node of the fleet:\n"
           "1. Copy ca.pem and %s.pem to " INSTALLED ". Let only the service read %s.pem, which\n"
           "   has the private key: penstock-operating(7), \"Settings of peers\", says how, with the\n"
           "   Debian package and with the systemd unit of make install.\n"
           "2. Add these lines to the settings file, and restart Penstock. All nodes need the same\n"
           "   origins and buckets.\n\n"
           "       \"peers\": \"%s\",\n"
           "       \"peer_listen\": \"0.0.0.0:9002\",\n"
           "       \"peer_name\": \"%s\",\n"
           "       \"peer_tls_cert_file\": \"" INSTALLED "/%s.pem\",\n"
           "       \"peer_tls_ca_file\": \"" INSTALLED "/ca.pem\"\n\n",
           SLICE_ARG(slice_sub(iso_date_text(keygen->keep, ends_s), 0, 10)),
           keygen->node, keygen->node,
           keygen->peers[0] ? keygen->peers : "HOST1, HOST2, HOST3", name, keygen->node);
    puts("3. penstock peers shows which nodes answer. Port 9002 must be open between the nodes.\n"
         "\nAnybody who has such a certificate with its key may read all that Penstock's own credentials\n"
         "may read.");
}

/* ---- the command ---- */

static int sign(struct keygen *keygen, const struct authority *authority)
{
    slice why, pem, signs = authority_name(authority, keygen->keep);
    const char *name = keygen->name[0] ? keygen->name : signs.len ? signs.ptr : NAME_DEFAULT;
    int64_t ends_s;
    if (signs.len && !slice_eq(signs, slice_of(name)))
        return failed("the CA in %s signs for the name %.*s alone, and peer_name is %s: name another "
                      "folder for another fleet, or give --peer-name %.*s\n", keygen->folder,
                      SLICE_ARG(signs), name, SLICE_ARG(signs));
    struct authority_ask ask = { .name = name, .subject = keygen->node,
                                 .days = (unsigned)keygen->days };
    if (authority_sign(authority, &ask, keygen->keep, &pem, &ends_s, &why))
        return failed("the CA in %s can't sign: %.*s. Name a new folder, for a new CA, and give its "
                      "ca.pem to all nodes\n", keygen->folder, SLICE_ARG(why));
    int status = write_file(keygen, keygen->node_file, 0600, pem);
    if (status)
        return status;
    print_files(keygen);
    print_advice(keygen, name, ends_s);
    return EXIT_GOOD;
}

static int make(struct keygen *keygen)
{
    if (exists(keygen->node_file))
        return failed("%s exists, and keygen never overwrites a file: give another name by --node, "
                      "or move the file away\n", keygen->node_file);
    if (mkdir(keygen->folder, 0700) && errno != EEXIST)
        return failed("can't make the folder %s: %s. Name a folder in which you may write\n",
                      keygen->folder, strerror(errno));
    struct authority *authority = find_authority(keygen);
    int status = authority ? sign(keygen, authority) : EXIT_FAILED;
    authority_free(&authority);
    if (status)
        undo(keygen);
    return status;
}

static bool is_file_name(const char *name)
{
    return *name && *name != '.' && strlen(name) <= 60 && strcmp(name, "ca") != 0 &&
           slice_only(slice_of(name), LOWER_CHARS UPPER_CHARS DIGIT_CHARS "-_.");
}

/* Reports what is wrong with the words of the command. */
static bool judge(const struct keygen *keygen, const char *days)
{
    if (!keygen->folder || !keygen->folder[0])
        fputs("penstock peers keygen: the folder is missing: write penstock peers keygen FOLDER\n",
              stderr);
    else if (!is_file_name(keygen->node))
        fprintf(stderr, "penstock peers keygen: --node must be a file name of a-z, 0-9, '-', '_' and "
                "'.', without .pem, and not \"ca\": \"%s\"\n", keygen->node);
    else if (!slice_only(slice_of(keygen->name), LOWER_CHARS DIGIT_CHARS "-."))
        fprintf(stderr, "penstock peers keygen: peer_name must be a host name of a-z, 0-9, '-' and "
                "'.', not \"%s\"\n", keygen->name);
    else if (keygen->days < 1 || keygen->days > DAYS_MAX)
        fprintf(stderr, "penstock peers keygen: --days must be 1 to %u, not \"%s\"\n", DAYS_MAX,
                days);
    else
        return true;
    return false;
}

int keygen_run(struct cli *cli)
{
    struct arena *keep = &cli->arena;
    const char *days = cli_option(cli, "--days"), *node = cli_option(cli, "--node");
    struct keygen keygen = { .keep = keep, .folder = cli_word(cli), .node = node ? node : "node" };
    days = days ? days : DAYS_DEFAULT;
    if (!slice_u64(slice_of(days), &keygen.days))
        keygen.days = 0;
    struct config *config = cli_load(cli, NULL);
    keygen.name = arena_copy(keep, slice_of(config->peer_name)).ptr;
    keygen.peers = arena_copy(keep, slice_of(config->peers)).ptr;
    size_t mistakes = cli_mistakes(cli, config, "command line", stderr);
    config_free(&config);
    if (mistakes || !judge(&keygen, days))
        return EXIT_USAGE;
    keygen.ca = arena_printf(keep, "%s/ca.pem", keygen.folder).ptr;
    keygen.ca_key = arena_printf(keep, "%s/ca.key", keygen.folder).ptr;
    keygen.node_file = arena_printf(keep, "%s/%s.pem", keygen.folder, keygen.node).ptr;
    return make(&keygen);
}
