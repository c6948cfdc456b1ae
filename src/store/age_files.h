/* age_files.h - the ages of records and the state of the rule, in files.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The files ages/%08x and ages/rule (format_files.h) outlive the process. Any of them may be lost
 * or old. Penstock then takes the records as young, and counts the live ones by look-ups
 * (account.h). */
#ifndef STORE_AGE_FILES_H
#define STORE_AGE_FILES_H

#include "store/volume_inside.h"

/* To be called when the folder was opened, before its records are touched. Gives the rule its state
 * back, if the rule has none, and each extent its ages. Extents whose live records are not known
 * are marked for the count (ages_set_counting). Removes the files of extents that don't exist. */
void age_files_read(struct volume *volume);
/* For a folder that is being opened. Reads from the files only which records were pinned. */
void age_files_read_pins(int folder, struct extents *extents);
/* Writes all files, before the mark of a clean stop. No other thread may use the volume. */
void age_files_write(struct volume *volume);

/* For the recycler: true if files are due, or a round of writing has not ended. */
bool age_files_are_due(struct volume *volume);
/* Writes the next file of the round. Begins a round if one is due. */
void age_files_step(struct volume *volume);

#endif
