/* format.h - the layout of the cache folder, format version 2: encoding, decoding, checks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All numbers are little endian, except the unit in a key of the index: it is big endian, so that
 * the entries of consecutive units are adjacent.
 *
 *   FOLDER/format          struct format, encoded (secret, size, generation, opening, volumes),
 *                          always replaced as a whole
 *   FOLDER/lock            locked while the folder is open
 *   FOLDER/clean           there only after a clean stop
 *   FOLDER/index/          LMDB: a key of 16 bytes (id, unit) -> an encoded entry of 36 bytes
 *   FOLDER/extents/%08x    a head page, then appends of records. An append starts at a multiple of
 *                          4 KiB, a record at a multiple of 64 bytes. A sealed extent ends in a
 *                          table of contents, which starts at a multiple of 4 KiB and has rows,
 *                          names and a footer
 *   record                 64 bytes of struct record, a CRC for each 64 KiB of data, the metadata
 *                          block, the data. Data with a full unit starts at a multiple of 4 KiB;
 *                          other data follows the metadata directly
 *
 * A data CRC is seeded with crc_seed(id, etag_hash, unit), so a block of another object, version or
 * place fails its check. Folders and extents of format version 1 can be read, too; a new extent has
 * version 2. All functions here are pure and accept any bytes. If they cannot prove
 * that bytes are right, they return ERR_GONE, which is a miss (rule H2 in src/README.md). */
#ifndef STORE_FORMAT_H
#define STORE_FORMAT_H

#include "store/hash.h"
#include "store/metadata.h"
#include "store/route.h"
#include "store/store.h"

#define FORMAT_VERSION 2u
#define BLOCK_BYTES 65536u            /* the bytes that one data CRC covers */
#define PAGE_BYTES 4096u
#define RECORD_ALIGN 64u
#define RECORD_BLOCKS (RECORD_BYTES_MAX / BLOCK_BYTES)
#define RECORD_BYTES_MIN 128u         /* header and metadata, or header, CRC and data, aligned */
#define RECORD_HEADER_MAX (64u + 4u * RECORD_BLOCKS)
#define METADATA_UNIT UINT32_MAX      /* the unit number of metadata in a record of its own */
#define METADATA_BLOCK_MAX 65536u
#define GENERATIONS 1024u             /* a generation takes 10 bits of an entry */

static inline uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/* ---- an entry of the index ---- */

#define ENTRY_KEY_BYTES 16u
#define ENTRY_BYTES 36u

struct entry {
    uint32_t extent;
    uint32_t offset;                  /* of a unit's data; for WHOLE and metadata: of the record */
    uint32_t ordinal;                 /* of the record in its extent */
    /* Length of the data, or of the metadata block if the metadata has a record of its own. */
    uint32_t len;
    bool whole;
    /* Metadata: nothing proves that the shared identity may read the object. The origin last refused
     * it, or it was fetched for another identity, or not proved since an unclean opening. */
    bool refused;
    uint32_t generation;              /* the generation in which it was last proved */
    uint64_t etag_hash;
    /* For metadata: metadata_mark(). For a unit: the CRCs of its two halves, the first one in the
     * low 32 bits. */
    uint64_t mark;
};

void entry_key(const struct object_id *id, uint32_t unit, uint8_t ret[ENTRY_KEY_BYTES]);
uint32_t entry_key_unit(const uint8_t key[ENTRY_KEY_BYTES]);
/* Turns a key into the next one in the order of the index. Returns false after the last possible
 * key. */
bool entry_key_next(struct object_id *id, uint32_t *unit) MUST_USE;
void entry_encode(const struct entry *entry, const uint8_t key[ENTRY_KEY_BYTES],
                  uint8_t ret[ENTRY_BYTES]);
enum err entry_decode(const uint8_t key[ENTRY_KEY_BYTES], slice value, struct entry *ret) MUST_USE;

/* ---- a record ---- */

enum record_kind { KIND_UNITS = 1, KIND_WHOLE = 2, KIND_HEAD = 3 };

/* The header of a record, as it lies on disk. record_encode sets magic, blocks and header_crc. */
struct record {
    uint32_t magic;
    uint8_t kind;                     /* enum record_kind */
    uint8_t blocks;                   /* data CRCs that follow the header */
    uint16_t zero;
    struct object_id id;
    uint32_t first_unit;              /* METADATA_UNIT for a record of metadata alone */
    uint32_t data_len, metadata_len;
    uint64_t etag_hash;
    /* WHOLE, HEAD: metadata_mark(). UNITS: the bucket hash, or 0 in an extent of version 1. */
    uint64_t mark;
    uint32_t extent, ordinal;
    uint32_t metadata_crc;
    uint32_t header_crc;              /* of all members before, then of the data CRCs */
    uint32_t crc[RECORD_BLOCKS];
};

uint32_t record_blocks(const struct record *record);
/* The number of entries in the index; 1 for metadata. */
uint32_t record_units(const struct record *record);
uint32_t record_header_bytes(uint32_t data_len);
/* The offsets at which the data of a record begins and the record ends. `offset` is that of the
 * record in its extent. */
uint64_t record_data_at(uint64_t offset, uint32_t data_len, uint32_t metadata_len);
uint64_t record_end(uint64_t offset, const struct record *record);
/* The length of a unit of this object; 0 for a unit beyond its end. */
uint32_t unit_len(const struct metadata *metadata, uint32_t unit);
void record_encode(const struct record *record, uint8_t ret[RECORD_HEADER_MAX]);
enum err record_decode(slice bytes, struct record *ret) MUST_USE;
/* The entry that unit `index` (counted from 0) of a record at `offset` gets. */
void record_entry(const struct record *record, uint64_t offset, uint32_t index, uint32_t generation,
                  uint32_t *ret_unit, struct entry *ret);
/* The CRC of a block of data, or of a metadata block, seeded with object, version and unit. */
uint32_t block_crc(const struct object_id *id, uint64_t etag_hash, uint32_t unit, const void *bytes,
                   size_t len);

/* ---- the metadata block ---- */

size_t metadata_block_bytes(const struct metadata *metadata);
void metadata_block_encode(const struct metadata *metadata, uint8_t *ret);
/* NULL if the bytes are no metadata. */
struct metadata *metadata_block_decode(const struct object_id *id, slice bytes) MUST_USE;

/* ---- the head page of an extent ---- */

enum extent_kind { EXTENT_LOG = 1, EXTENT_COPY = 2, EXTENT_STAGING = 3 };

#define EXTENT_HEAD_BYTES 64u         /* the rest of the page is zero */

/* This struct is the layout on disk. extent_head_encode sets magic, version and crc. */
struct extent_head {
    uint32_t magic, version;
    uint32_t extent;
    uint8_t kind, zero[3];            /* enum extent_kind */
    uint8_t volume[VOLUME_ID_BYTES];
    uint8_t more_zero[28];
    uint32_t crc;                     /* of all members before */
};

void extent_head_encode(const struct extent_head *head, uint8_t ret[EXTENT_HEAD_BYTES]);
enum err extent_head_decode(const uint8_t bytes[EXTENT_HEAD_BYTES],
                            struct extent_head *ret) MUST_USE;

/* ---- a table of contents ---- */

#define TOC_FOOTER_BYTES 64u

/* These two structs are the layout on disk in version 2. A row of version 1 lacks the two hashes,
 * and a footer of version 1 ends with rows_crc, zeros and the CRC. */
struct toc_entry {
    struct object_id id;
    uint32_t first_unit, offset, data_len, metadata_len;
    uint8_t kind, zero[3];            /* enum record_kind */
    uint64_t bucket;                  /* its hash; 0: not known */
    uint64_t etag_hash;               /* 0: not known */
};
struct toc_footer {
    uint32_t magic, version;
    uint32_t extent, count, offset, rows_crc;
    uint32_t names_len, names_crc;
    uint32_t record_bytes, data_bytes;    /* of all records; version 1: 0 */
    uint8_t kind, zero[3];            /* enum extent_kind */
    uint8_t volume[VOLUME_ID_BYTES];
    uint32_t crc;                     /* of all members before */
};

/* The row of a record, with the bucket hash that a record of units has. */
struct toc_entry toc_entry_of(const struct record *record, uint64_t offset);
/* The number of units that an object can have. No record and no entry has a unit beyond, except
 * METADATA_UNIT. */
#define UNITS_MAX ((uint32_t)(STORE_OBJECT_BYTES_MAX / UNIT_BYTES))
/* Returns true if a record may have this kind, these lengths and this first unit. */
bool toc_entry_is_valid(const struct toc_entry *entry) MUST_USE;
/* Returns true if the names of a table have one for this row. */
bool toc_entry_has_name(const struct toc_entry *entry);
uint64_t toc_entry_record_bytes(const struct toc_entry *entry);
/* The offset at which the data of the record begins. */
uint64_t toc_entry_data_at(const struct toc_entry *entry);
/* Decodes the header of the record that a row of the extent names. Returns ERR_GONE if the bytes
 * are no header, or the header of another record. A row of version 1 has no hashes to compare. */
enum err toc_entry_record(const struct toc_entry *entry, uint32_t extent, uint32_t ordinal,
                          slice header, struct record *ret) MUST_USE;
/* Converts rows between memory and the layout of a version. */
size_t toc_row_bytes(uint32_t version);
void toc_rows_encode(uint32_t version, const struct toc_entry *entries, uint32_t count,
                     uint8_t *ret);
void toc_rows_decode(uint32_t version, const uint8_t *bytes, uint32_t count,
                     struct toc_entry *ret);
/* Sets magic and crc. The version is that of the argument. */
void toc_footer_encode(const struct toc_footer *footer, uint8_t ret[TOC_FOOTER_BYTES]);
/* A footer of version 1 gets the kind EXTENT_LOG. */
enum err toc_footer_decode(const uint8_t bytes[TOC_FOOTER_BYTES], struct toc_footer *ret) MUST_USE;
/* The size of a table, from its first page to the end of the file. */
uint64_t toc_bytes(uint32_t version, uint64_t count, uint64_t names_len);

/* The name in a table of contents of an object that has a WHOLE or HEAD row. */
struct toc_name {
    uint64_t size;                    /* of the object */
    slice name;                       /* as metadata->name */
};

size_t toc_name_bytes(const struct toc_name *name);
void toc_name_encode(const struct toc_name *name, uint8_t *ret);
/* Takes the next name off *names. Returns false if these bytes are no name. */
bool toc_name_take(slice *names, struct toc_name *ret) MUST_USE;
/* Finds the name in a metadata block whose checksum is right. Returns false if it is no such
 * block. */
bool toc_name_of(slice metadata_block, struct toc_name *ret) MUST_USE;

/* ---- the format file ---- */

/* The limit for a format file of any version: magic, u32 version, ..., a CRC of all these. */
#define FORMAT_BYTES_MAX 4096u

struct format {
    uint32_t version;                 /* 1 or 2; encoding always writes FORMAT_VERSION */
    uint32_t generation;              /* the current one; entries of another one are unproved */
    uint8_t secret[STORE_SECRET_BYTES];
    uint64_t size_bytes;
    /* Number of the latest opening. An index with another number is not the folder's latest. */
    uint64_t opening;
    uint32_t extent_bytes;
    /* All that follows is zero in version 1. */
    uint8_t volume[VOLUME_ID_BYTES];
    uint32_t weight;                  /* never changes */
    uint64_t serial;                  /* of the last run in which this volume was in service */
    /* The volumes of the installation when this one was last in use. */
    uint32_t volume_count;
    struct route_row volumes[VOLUMES_MAX];
    /* For each of them: the serial of the last run in which both were in service; 0: none. For the
     * volume itself: the highest serial of a copy that it has taken into account. */
    uint64_t shared[VOLUMES_MAX];
    bool one_copy_damaged;            /* the file has two, and the other one was read */
};

/* Returns the place of a volume in the list, or format->volume_count. */
uint32_t format_place(const struct format *format, const uint8_t id[VOLUME_ID_BYTES]);
/* Returns the serial of the last run that the volume shared with the one with this id; 0: none. */
uint64_t format_shared(const struct format *format, const uint8_t id[VOLUME_ID_BYTES]);
/* Returns the length. */
size_t format_encode(const struct format *format, uint8_t ret[FORMAT_BYTES_MAX]);
/* Returns OK, ERR_FORMAT if the version is newer, or ERR_GONE if both copies are damaged. Both errors
 * set *ret_why. */
enum err format_decode(slice bytes, struct format *ret, const char **ret_why) MUST_USE;

#endif
