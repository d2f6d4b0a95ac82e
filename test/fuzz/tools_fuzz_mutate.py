"""Mutations of a file: of its bytes, of numbers and names in text, of JSON's structure.

    data = mutate(rng, data, sign)      # `sign` makes checksums right again; None: there are none
"""
import json
import re
import zlib

NUMBERS = [0, 1, 2, 3, 7, 64, 4095, 4096, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64,
           -1, -2, -2**31, -2**63, 0.5, -0.0, 1e-320, 1e308, "1e999", "NaN", "Infinity"]
NAMES = ["", "x", "\x1b[31m", "\n", "\r", "\x00", "\x7f", "\x9b2J", "../x", "/dev/zero", "a" * 5000, "é\u202e", "%s%n", "*", "🙂"]
BYTES = [b"\x00", b"\xff", b"\x80", b"\x1b]0;x\x07", b"\n", b"\xc2\x9b", b"\xed\xa0\x80", b"{", b"[" * 100, b'"']


def mutate(rng, data, sign=None):
    """Mostly one change, so that most checks are reached; sometimes many."""
    value = as_json(data) if rng.random() < 0.5 else None
    if value is not None:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            value = change_json(rng, value)
        data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
        # json writes infinities as a person would; what JSON cannot hold is text until here.
        data = re.sub(rb'"(1e999|NaN|Infinity)"', rb"\1", data)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 12))):
            data = change_bytes(rng, data)
    return sign(data) if sign and rng.random() < 0.9 else data


def as_json(data):
    try:
        return json.loads(data)
    except (ValueError, UnicodeDecodeError, RecursionError):
        return None


def change_bytes(rng, data):
    at, length = rng.randrange(len(data) + 1), rng.randrange(1, 17)
    what = rng.randrange(9)
    if what == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:]
    if what == 1:
        return data[:at] + rng.choice(BYTES) + data[at + 1:]
    if what == 2:
        return data[:at] + rng.choice(BYTES) + data[at:]
    if what == 3:
        return data[:at] + data[at + length:]
    if what == 4:
        return data[:at] + data[at:at + length] * rng.choice((2, 3, 100)) + data[at + length:]
    if what == 5:
        return data[:at]
    if what == 6:
        other = rng.randrange(len(data) + 1)
        return data[:at] + data[other:other + length] + data[at + length:]
    numbers = list(re.finditer(rb"-?\d+", data[:1 << 20]))
    if what == 7 and numbers:
        found = rng.choice(numbers)
        return data[:found.start()] + str(rng.choice(NUMBERS)).encode() + data[found.end():]
    names = list(re.finditer(rb"[A-Za-z_][A-Za-z_0-9./]{1,}", data[:1 << 20]))
    if names:
        found = rng.choice(names)
        return data[:found.start()] + rng.choice(NAMES).encode() + data[found.end():]
    return data + rng.choice(BYTES)


def change_json(rng, value):
    """One place of a JSON value becomes something else."""
    places = []

    def visit(holder, key, child):
        places.append((holder, key))
        for inner in (child if isinstance(child, dict) else range(len(child)) if isinstance(child, list) else ()):
            if len(places) < 20000:
                visit(child, inner, child[inner])

    top = [value]
    visit(top, 0, value)
    holder, key = rng.choice(places)
    old, what = holder[key], rng.randrange(7)
    if what == 0:
        holder[key] = rng.choice(NUMBERS)
    elif what == 1:
        holder[key] = rng.choice(NAMES)
    elif what == 2:
        holder[key] = rng.choice([None, True, [], {}, [[]], [old], {"x": old}, [[[[[[[[old]]]]]]]]])
    elif what == 3 and holder is not top:
        del holder[key]
    elif what == 4 and isinstance(holder, dict):
        holder[rng.choice(NAMES)] = holder.pop(key)
    elif what == 5 and isinstance(holder, list) and holder is not top:
        holder[key:key] = [old] * rng.choice((1, 2, 50))
    else:
        other, name = rng.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    return top[0]


def signed_manifest(data):
    """A checkpoint's manifest with the checksum that belongs to its text."""
    value = as_json(data)
    if not isinstance(value, dict):
        return data
    value.pop("crc32", None)
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        value["crc32"] = f"{zlib.crc32(text.encode()):08x}"
        return json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, UnicodeEncodeError):
        return data
