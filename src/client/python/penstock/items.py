"""items.py - lists of items, and their places in a buffer. SPDX-License-Identifier: Apache-2.0

An item is "key", ("key", offset, length), ("key", offset, length, to), or a dict of key, offset, length, to,
max, if_match, version_id. `to` is the item's place: its offset in the buffer. An item without a length, or
with length -1, goes to the end of the object. Items without a place are put one after another. An item
without a length has room for its `max` bytes. Items with neither place nor length nor `max` get equal parts
of the space that is left.
"""
import itertools

ALIGN = 64      # equal parts are multiples of ALIGN bytes, unless they are smaller than ALIGN


def listed(items):
    if isinstance(items, (str, bytes, dict)):
        raise TypeError(f"items must be a list, not a single item: write [{items!r}]")
    return list(items)


def read(item):
    """Returns (key, offset, length, to, more) of an item. A value that the item does not give is None."""
    if isinstance(item, str):
        return item, None, None, None, None
    if isinstance(item, dict):
        more = {n: item[n] for n in item if n not in ("key", "offset", "length", "to")}
        length = item.get("length")
        return item["key"], item.get("offset"), None if length == -1 else length, item.get("to"), more
    if len(item) not in (1, 3, 4):
        raise ValueError("an item must be a key, (key, offset, length), (key, offset, length, to) or a dict, "
                         f"not {item!r}")
    key, offset, length, to = (tuple(item) + (None, None, None))[:4]
    return key, offset, None if length == -1 else length, to, None


def word(key, offset, length, to, more):
    """Returns an item as a *word*: the form of an item in messages. If `to` is None, the word has no `to`, as
    in a batch."""
    whole = offset is None and length is None
    if more or whole:
        made = {"key": key, **(more or {})}
        if not whole:
            made["offset"], made["length"] = offset or 0, -1 if length is None else length
        if to is not None:
            made["to"] = to
        return made
    made = [key, offset or 0, -1 if length is None else length]
    return made if to is None else made + [to]


def share(rows, room, start):
    """Returns the space in bytes for each item that has neither a place (`to`) nor a length nor a `max`."""
    used = start + sum(length for _, _, length, to, _ in rows if length is not None and to is None)
    open_count = sum(1 for _, _, length, to, more in rows
                     if length is None and to is None and not (more and "max" in more))
    used += sum(more["max"] for _, _, length, to, more in rows
                if length is None and to is None and more and "max" in more)
    if not open_count:
        return 0
    each = max(0, room - used) // open_count
    return each // ALIGN * ALIGN if each >= ALIGN else each


def lay_out_spans(items, start):
    """A fast lay_out_rows for lists in which every item is (key, offset, length). Most lists are of this
    form. Returns None for other lists. There is no Python loop over the items. Such a loop would be slow,
    because the bytes of the last fill have displaced Python's code and data from the processor's cache."""
    if set(map(type, items)) != {tuple} or set(map(len, items)) != {3}:
        return None
    keys, firsts, lengths = zip(*items)
    if set(map(type, lengths)) != {int} or min(lengths) < 0:
        return None
    *offsets, end = itertools.accumulate(lengths, initial=start)
    return list(zip(keys, firsts, lengths, offsets)), offsets, list(lengths), end


def lay_out(items, room, start=0):
    """Returns [words, offsets, lengths] of the items: their words for the fill socket, their offsets in the
    buffer, and their lengths (None: to the end of the object)."""
    *laid, at = lay_out_spans(items, start) or lay_out_rows(items, room, start)
    if at > room:
        raise ValueError(f"the items need {at} bytes, and the buffer has {room}: use a larger buffer or fewer "
                         "items")
    return laid


def lay_out_rows(items, room, start):
    rows = [read(item) for item in items]
    each, at = share(rows, room, start), start
    words, offsets, lengths = [], [], []
    for key, offset, length, to, more in rows:
        if to is None:
            to = at
            if length is None and not (more and "max" in more):
                more = {**(more or {}), "max": each}
            at += length if length is not None else more["max"]
        words.append(word(key, offset, length, to, more))
        offsets.append(to)
        lengths.append(length)
    return words, offsets, lengths, at


def key_of(item):
    return item if isinstance(item, str) else item["key"] if isinstance(item, dict) else item[0]
