"""Archives that no packer would make, each with the sentence that refuses it.

    for kind in corpus(): kind.name, kind.code, kind.sentence; kind.write(path)

As a program: hostile_zips.py DIR writes DIR/NAME.zip and DIR/list, a line "NAME<tab>CODE<tab>SENTENCE"
each. Python's zipfile makes what it can be brought to make; the rest is written byte by byte, after
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3.
"""
import dataclasses
import io
import pathlib
import stat
import struct
import sys
import warnings
import zipfile
import zlib

STORED, DEFLATED = 0, 8
FILE, FOLDER, LINK = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777
NONE32 = 0xFFFFFFFF
ENCRYPTED, DESCRIPTOR, PATCH, STRONG, UTF8 = 1 << 0, 1 << 3, 1 << 5, 1 << 6, 1 << 11


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@dataclasses.dataclass
class Entry:
    """One entry; what is None is as the rest says. `local` changes the header before the bytes."""
    name: bytes
    data: bytes = b""
    mode: int = FILE
    method: int = STORED
    flags: int = 0
    bytes: bytes = None  # as they stand in the archive
    crc: int = None
    packed: int = None
    size: int = None
    extra: bytes = b""
    comment: bytes = b""
    disk: int = 0
    place: int = None  # where its header is said to be
    gap: bytes = b""   # in front of it
    local: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.bytes is None:
            self.bytes = deflated(self.data) if self.method == DEFLATED else self.data
        self.crc = zlib.crc32(self.data) if self.crc is None else self.crc
        self.packed = len(self.bytes) if self.packed is None else self.packed
        self.size = len(self.data) if self.size is None else self.size

    def header(self):
        here = {key: getattr(self, key) for key in
                ("name", "flags", "method", "crc", "packed", "size", "extra")} | self.local
        return struct.pack("<IHHHIIIIHH", 0x04034B50, 20, here["flags"], here["method"],
                           0x00210000, here["crc"], here["packed"], here["size"],
                           len(here["name"]), len(here["extra"])) + here["name"] + here["extra"]

    def record(self, place):
        place = place if self.place is None else self.place
        return struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 3 << 8 | 20, 20, self.flags,
                           self.method, 0x00210000, self.crc, self.packed, self.size,
                           len(self.name), len(self.extra), len(self.comment), self.disk, 0,
                           self.mode << 16, place) + self.name + self.extra + self.comment


def end64(number, size, start, place, change={}):
    """The Zip64 record of `number` entries, at `place`, and its locator."""
    end = {"disk": 0, "here": number, "count": number, "size": size, "start": start,
           "place": place, "length": 44} | change
    return struct.pack("<IQHHIIQQQQ", 0x06064B50, end["length"], 45, 45, end["disk"], 0,
                       end["here"], end["count"], end["size"], end["start"]) + struct.pack(
                           "<IIQI", 0x07064B50, 0, end["place"], 1)


def archive(*entries, prefix=b"", hidden=b"", comment=b"", zip64=None, suffix=b"", **change):
    """prefix and hidden stand before and behind the entries; zip64 changes its record."""
    out, directory = bytearray(prefix), b""
    records = []
    for entry in entries:
        out += entry.gap
        records.append(entry.record(len(out)))
        out += entry.header() + entry.bytes
    out += hidden
    directory = b"".join(records)
    start = len(out)
    out += directory
    end = {"disk": 0, "here": len(entries), "count": len(entries), "size": len(directory),
           "start": start, "length": len(comment)}
    if zip64 is not None:
        out += end64(len(entries), len(directory), start, len(out), zip64)
        end |= {"here": 0xFFFF, "count": 0xFFFF, "size": NONE32, "start": NONE32}
    end |= change
    if "count" in change and "here" not in change:
        end["here"] = change["count"]
    return bytes(out) + struct.pack("<IHHHHIIH", 0x06054B50, end["disk"], end["disk"], end["here"],
                                    end["count"], end["size"], end["start"],
                                    end["length"]) + comment + suffix


def by_zipfile(*items):
    """Made by Python: (name, mode, data, method) each; names as they are."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as made:
        warnings.simplefilter("ignore")  # duplicate names
        for name, mode, data, method in items:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.external_attr = mode << 16
            info.compress_type = method
            made.writestr(info, data)
    return out.getvalue()


def plain(name, mode=FILE, data=b"x"):
    return by_zipfile((name, mode, data, STORED))


def field(number, data):
    return struct.pack("<HH", number, len(data)) + data


def zip64_field(*numbers):
    return field(1, struct.pack(f"<{len(numbers)}Q", *numbers))


def quoted_bomb(count):
    """Each entry's packed bytes quote the header of the next as a stored block, and go on through
    its bytes: all unpack to nearly the same kernel, which is there once."""
    kernel = bytes(2000)
    tail, data = deflated(kernel), kernel
    entries = [Entry(b"quoted%d" % count, data=data, method=DEFLATED, bytes=tail)]
    for i in range(count - 1, 0, -1):
        quote = entries[0].header()
        tail = struct.pack("<BHH", 0, len(quote), len(quote) ^ 0xFFFF) + quote + tail
        data = quote + data
        entries.insert(0, Entry(b"quoted%d" % i, data=data, method=DEFLATED, bytes=tail))
    out, places = b"", []
    for i, entry in enumerate(entries):
        places.append(len(out))
        out += entry.header()
        if i + 1 < count:  # only the quoting; the next header follows by itself
            out += entry.bytes[:5]
    out += entries[-1].bytes
    records = b"".join(entry.record(place) for entry, place in zip(entries, places))
    return out + records + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(records),
                                       len(out), 0)


def write_many(path, count, comment=b""):
    """So many entries that it is written piece by piece."""
    with open(path, "wb") as out:
        records = []
        place = 0
        for i in range(count):
            name = b"%06d" % i
            out.write(struct.pack("<IHHHIIIIHH", 0x04034B50, 20, 0, 0, 0x00210000, 0, 0, 0, 6, 0)
                      + name)
            records.append(struct.pack("<IHHHHIIIIHHHHHII", 0x02014B50, 788, 20, 0, 0, 0x00210000,
                                       0, 0, 0, 6, 0, len(comment), 0, 0, FILE << 16, place)
                           + name + comment)
            place += 36
        directory = b"".join(records)
        out.write(directory)
        change = {"count": 0xFFFF, "here": 0xFFFF} if count > 0xFFFE else {"count": count, "here": count}
        if count > 0xFFFE:
            out.write(end64(count, len(directory), place, place + len(directory)))
        out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, change["here"], change["count"],
                              len(directory), place, 0))


@dataclasses.dataclass
class Kind:
    name: str
    code: str
    sentence: str
    make: object  # bytes, or a function of the path

    def write(self, path):
        if callable(self.make):
            self.make(path)
        else:
            pathlib.Path(path).write_bytes(self.make)


A = Entry(b"a", b"12345")
B = Entry(b"b", b"6789")
PACKED = deflated(b"hello")
LONG = "n" * 120  # as much of a name as a sentence shows


def hello(**change):
    return Entry(b"a", b"hello", method=DEFLATED, **change)


def names():
    yield "parent", 'entry ../x: ".." is a part of its name', plain("../x")
    yield "parent_inside", 'entry a/../../x: ".." is a part of its name', plain("a/../../x")
    yield "parent_last", 'entry a/..: ".." is a part of its name', plain("a/..")
    yield "dot", 'entry ./a: "." is a part of its name', plain("./a")
    yield "absolute", "entry /etc/x: its name is absolute", plain("/etc/x")
    yield "root", "entry /: its name is absolute", plain("/", FOLDER, b"")
    yield "backslash", "entry ..\\x: its name contains a backslash", plain("..\\x")
    yield "nul", "entry a: its name contains a NUL", archive(Entry(b"a\0/../../x"))
    yield "newline", "entry a b: its name contains a control character", archive(Entry(b"a\nb"))
    yield "escape", "entry  [2Ja: its name contains a control character", archive(Entry(b"\x1b[2Ja"))
    yield "c1_control", "entry a??: its name contains a control character", plain("a\u009b")
    yield "bidi_control", "entry a???txt.exe: its name contains a control character", plain("a\u202etxt.exe")
    yield "bad_utf8", "entry a?: its name is not UTF-8", archive(Entry(b"a\xff", flags=UTF8))
    yield "overlong_utf8", "entry ????/x: its name is not UTF-8", archive(Entry(b"\xc0\xae\xc0\xae/x"))
    yield "empty_part", "entry a//b: its name has an empty part", plain("a//b")
    yield "empty_name", "an entry without a name", archive(Entry(b""))
    yield "long_part", f"entry {LONG}: a part of its name exceeds 255 bytes", plain("n" * 256)
    yield "long_name", f"entry {'d/' * 60}: its name exceeds 1024 bytes", plain("d/" * 512 + "x")
    yield "deep", f"entry {'e/' * 60}: more than 64 directories deep", plain("e/" * 64 + "x")
    yield "other_name", "entry a: its extra field contains another name", archive(
        Entry(b"a", extra=field(0x7075, b"\1" + struct.pack("<I", zlib.crc32(b"a")) + b"../x")))


def clashes():
    yield "duplicate", "entry a: its name is not unique", by_zipfile(
        ("a", FILE, b"1", STORED), ("a", FILE, b"2", STORED))
    yield "case", "entries Dir/A and dir/a: names differ only in case", by_zipfile(
        ("Dir/A", FILE, b"1", STORED), ("dir/a", FILE, b"2", STORED))
    yield "case_of_folder", "entries A/x and a/y: names differ only in case", by_zipfile(
        ("A/x", FILE, b"1", STORED), ("a/y", FILE, b"2", STORED))
    yield "case_umlaut", "entries \u00c4.py and \u00e4.py: names differ only in case", by_zipfile(
        ("\u00c4.py", FILE, b"1", STORED), ("\u00e4.py", FILE, b"2", STORED))
    yield "case_kelvin", "entries K and \u212a: names differ only in case", by_zipfile(
        ("\u212a", FILE, b"1", STORED), ("K", FILE, b"2", STORED))
    yield "file_and_folder", "entry c: both a file and a directory", by_zipfile(
        ("c", FILE, b"1", STORED), ("c/", FOLDER, b"", STORED))
    yield "file_as_folder", "entry c: a file, but also the directory of another entry", by_zipfile(
        ("c/d", FILE, b"1", STORED), ("c", FILE, b"2", STORED))


def kinds():
    link = "a symbolic link; only files and directories can be packed"
    device = "a device, fifo or socket; only files and directories can be packed"
    by_extra = "a hard link or device according to its extra field"
    yield "link", f"entry link: {link}", plain("link", LINK, b"/etc/passwd")
    yield "link_then_through", f"entry out: {link}", by_zipfile(
        ("out", LINK, b"..", STORED), ("out/x", FILE, b"written", STORED))
    yield "link_of_dos", f"entry dos: {link}", plain("dos", LINK, b"..").replace(
        struct.pack("<IH", 0x02014B50, 3 << 8 | 20), struct.pack("<IH", 0x02014B50, 20))
    yield "device", f"entry tty: {device}", plain("tty", stat.S_IFCHR | 0o666, b"")
    yield "disk", f"entry sda: {device}", plain("sda", stat.S_IFBLK | 0o666, b"")
    yield "fifo", f"entry pipe: {device}", plain("pipe", stat.S_IFIFO | 0o666, b"")
    yield "socket", f"entry sock: {device}", plain("sock", stat.S_IFSOCK | 0o666, b"")
    yield "hard_link", f"entry hard: {by_extra}", archive(
        Entry(b"hard", extra=field(0x000D, bytes(12) + b"/etc/passwd")))
    yield "hard_link_local", f"entry hidden: {by_extra}", archive(
        Entry(b"hidden", local={"extra": field(0x000D, bytes(12) + b"/etc/passwd")}))
    yield "device_extra", f"entry asi: {by_extra}", archive(Entry(b"asi", extra=field(
        0x756E, struct.pack("<IHIHH", 0, stat.S_IFCHR | 0o666, 0x0103, 0, 0))))
    yield "folder_as_file", "entry d/: its name and its type differ", plain("d/", FILE, b"")
    yield "file_as_directory", "entry d: its name and its type differ", plain("d", FOLDER, b"")
    yield "folder_with_bytes", "entry d/: a directory with content", plain("d/", FOLDER, b"x")


def bombs():
    bomb = "unpacks to more than 200 times its packed size; store it uncompressed"
    million = bytes(1 << 20)
    yield "ratio", f"entry zeros: {bomb}", by_zipfile(("zeros", FILE, million * 16, DEFLATED))
    yield "ratio_of_all", ("the archive unpacks to more than 200 times its packed size; store its "
                           "files uncompressed"), by_zipfile(
        *((f"zeros{i}", FILE, million, DEFLATED) for i in range(8)))
    yield "ratio_lie", f"entry lie: {bomb}", archive(
        Entry(b"lie", b"x", method=DEFLATED, size=1 << 30))
    yield "ratio_of_zip64", f"entry huge: {bomb}", archive(
        Entry(b"huge", b"x", method=DEFLATED, size=NONE32, extra=zip64_field(1 << 63)))
    hint = "keep data outside the bundle, where the nodes can read it"
    yield "large", ("entry b: with its 5 GiB the archive unpacks to more than the limit of 8 GiB; "
                    f"{hint}"), write_large
    yield "overlap", "entry b: overlaps entry a", overlap()
    yield "same_bytes", "entry a: overlaps entry a", archive(
        A, Entry(b"a", b"12345", place=0))
    yield "overlap_quoted", "entry quoted2: overlaps entry quoted1", quoted_bomb(20)
    yield "many", ("the archive has 1000000 files and directories; the limit of a bundle is 10000; "
                   f"{hint}"), lambda path: write_many(path, 1000000)
    yield "fat_directory", "the archive's central directory has 72145700 bytes; the limit is 67108864", (
        lambda path: write_many(path, 1100, b"c" * 65535))


def write_large(path):
    """Two files of 5 GiB, all zeros and not compressed; the archive has holes in their place."""
    size = 5 << 30
    entries = [Entry(name, bytes=b"", packed=NONE32, size=NONE32, extra=zip64_field(size, size))
               for name in (b"a", b"b")]
    header = entries[0].header()
    second = len(header) + size
    start = 2 * second
    entries[1].place, entries[1].extra = NONE32, zip64_field(size, size, second)
    entries[1].local["extra"] = zip64_field(size, size)
    directory = entries[0].record(0) + entries[1].record(0)
    with open(path, "wb") as out:
        out.write(header)
        out.seek(second)
        out.write(entries[1].header())
        out.seek(start)
        out.write(directory + end64(2, len(directory), start, start + len(directory)))
        out.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2, 2, len(directory), NONE32, 0))


def overlap():
    """Two entries, the first of which holds the header of the second."""
    second = Entry(b"b", b"y")
    inside = second.header() + second.bytes
    first = Entry(b"a", inside)
    start = len(first.header())
    out = first.header() + inside
    records = first.record(0) + second.record(start)
    return out + records + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2, 2, len(records), len(out), 0)


def sizes():
    yield "size_too_small", "entry a: larger than declared", archive(hello(size=3))
    yield "size_too_large", "entry a: smaller than declared", archive(hello(size=9))
    yield "stored_two_sizes", "entry a: not compressed, but its packed and unpacked sizes differ", archive(
        Entry(b"a", b"12345", size=4))
    yield "crc", "entry b: its checksum does not match its content", archive(
        Entry(b"dir/good", b"x"), Entry(b"b", b"6789", crc=1))
    yield "deflate_damaged", "entry a: its compressed content is damaged", archive(
        hello(bytes=b"\7" + PACKED[1:]))
    yield "deflate_cut", "entry cut: its checksum does not match its content", archive(
        Entry(b"cut", b"hello", method=DEFLATED, bytes=PACKED[:3]))
    yield "packed_too_large", "entry a: extends beyond the end of the archive", archive(
        hello(packed=1000, local={"packed": len(PACKED)}))
    yield "zip64_missing", "entry a: its Zip64 sizes are missing", archive(hello(size=NONE32))
    yield "zip64_short", "entry short: its Zip64 sizes are missing", archive(
        Entry(b"short", size=NONE32, packed=NONE32, extra=zip64_field(5)))
    yield "zip64_twice", "entry a: it has two sets of Zip64 sizes", archive(
        hello(extra=zip64_field(5) + zip64_field(6)))
    yield "zip64_packed", "entry wide: extends beyond the end of the archive", archive(
        Entry(b"wide", b"x", packed=NONE32, extra=zip64_field((1 << 64) - 1)))
    yield "extra_damaged", "entry a: its extra field is damaged", archive(
        hello(extra=struct.pack("<HH", 0x5455, 9) + b"x"))


def headers():
    yield "local_name", "entry a: the names in its two headers differ", archive(hello(local={"name": b"b"}))
    yield "local_size", "entry a: the sizes in its two headers differ", archive(hello(local={"size": 4}))
    yield "local_packed", "entry p: the sizes in its two headers differ", archive(
        Entry(b"p", b"hello", local={"packed": 4}))
    yield "local_method", "entry a: the compression methods in its two headers differ", archive(
        hello(local={"method": STORED}))
    yield "local_crc", "entry a: the checksums in its two headers differ", archive(hello(local={"crc": 7}))
    yield "local_zip64", "entry z: the sizes in its two headers differ", archive(
        Entry(b"z", b"hello", local={"size": NONE32, "extra": zip64_field(6)}))
    yield "local_encrypted", "entry a: encrypted according to its local header", archive(
        hello(local={"flags": ENCRYPTED}))
    yield "encrypted", "entry a: encrypted", archive(hello(flags=ENCRYPTED))
    yield "encrypted_strongly", "entry s: encrypted", archive(Entry(b"s", flags=STRONG | ENCRYPTED))
    yield "patch", "entry a: contains a patch, not a file", archive(hello(flags=PATCH))
    yield "method", "entry a: unknown compression method", archive(Entry(b"a", b"x", method=77))
    yield "outside", "entry a: its offset is outside the archive", archive(hello(place=100000))
    yield "outside_zip64", "entry far: its offset is outside the archive", archive(
        Entry(b"far", place=NONE32, extra=zip64_field((1 << 64) - 8)))
    yield "no_header", "entry a: no local header at its offset", archive(hello(place=1))
    yield "part_of_archive", "entry a: stored in another part of the archive", archive(hello(disk=3))


def ends():
    count = "the archive's central directory"
    yield "not_a_zip", "not a zip archive", b"#!/bin/sh\nexit 0\n"
    yield "empty", "the file is empty", b""
    yield "no_end", "the archive is truncated: it has no end record", archive(A, B)[:-22]
    yield "suffix", "7 bytes follow the archive's end record", archive(A, suffix=b"garbage")
    yield "prefix", "7 bytes precede the archive", b"garbage" + archive(A)
    yield "prefix_counted", "7 bytes before a belong to no entry of the archive", archive(
        A, prefix=b"garbage")
    yield "hidden", "6 bytes before b belong to no entry of the archive", archive(
        A, Entry(b"b", b"6789", gap=b"hidden"))
    yield "second_end", "the archive's comment contains a second end record", archive(A, comment=archive(B))
    yield "second_directory", "47 bytes before the central directory belong to no entry of the archive", (
        archive(A, hidden=A.record(0)))
    yield "second_archive", f"{len(archive(A))} bytes before b belong to no entry of the archive", (
        archive(B, prefix=archive(A)))
    yield "parts", "the archive is one part of several", archive(A, disk=2)
    yield "directory_misplaced", f"{count} is not at its recorded offset", archive(A, start=60)
    yield "directory_damaged", f"{count} is damaged after entry 1 of 2", b"PK\1\3".join(
        archive(A, B).rsplit(b"PK\1\2", 1))
    yield "count_too_low", f"{count} continues after its 1 entries", archive(A, B, count=1)
    yield "count_too_high", f"{count} is damaged after entry 2 of 3", archive(
        A, Entry(b"b", comment=bytes(46)), count=3)
    yield "count_absurd", "the archive claims 9000 entries, more than its central directory can hold", (
        archive(A, count=9000))
    yield "count_of_zip64", ("the archive claims 1000000000000 entries, more than its central "
                             "directory can hold"), archive(A, zip64={"count": 10**12, "here": 10**12})
    yield "zip64_no_record", "the archive has no Zip64 record", archive(A, count=0xFFFF)
    yield "zip64_misplaced", "the archive's Zip64 record is not at its recorded offset", archive(
        A, zip64={"place": 1})
    yield "zip64_length", "the archive's Zip64 record has a wrong length", archive(
        A, zip64={"length": 45})
    yield "zip64_disagrees", "the archive's end record and Zip64 record differ", archive(
        A, zip64={}, count=2)


def corpus():
    """All kinds. The code is TFC_EARCHIVE, but for what is only too much."""
    too_big = {"ratio", "ratio_of_all", "ratio_lie", "large", "many", "fat_directory",
               "ratio_of_zip64"}
    for group in (names, clashes, kinds, bombs, sizes, headers, ends):
        for name, sentence, make in group():
            yield Kind(name, "TFC_ETOOBIG" if name in too_big else "TFC_EARCHIVE", sentence, make)


def main(folder):
    with open(pathlib.Path(folder) / "list", "w") as out:
        for kind in corpus():
            kind.write(pathlib.Path(folder) / f"{kind.name}.zip")
            out.write(f"{kind.name}\t{kind.code}\t{kind.sentence}\n")


if __name__ == "__main__":
    main(sys.argv[1])
