"""XXH3-64 with a seed, in plain Python: slow, and independent of the library that the program uses."""
# SPDX-License-Identifier: Apache-2.0

MASK = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def r32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def r64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def swap(value, size):
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def rotl(value, by):
    return (value << by | value >> (64 - by)) & MASK


def fold(a, b):
    product = a * b
    return (product ^ product >> 64) & MASK


def avalanche(h):
    h = (h ^ h >> 37) * MX1 & MASK
    return h ^ h >> 32


def avalanche_xxh64(h):
    h = (h ^ h >> 33) * P64_2 & MASK
    h = (h ^ h >> 29) * P64_3 & MASK
    return h ^ h >> 32


def mix16(data, at, secret_at, seed):
    return fold(r64(data, at) ^ (r64(SECRET, secret_at) + seed & MASK),
                r64(data, at + 8) ^ (r64(SECRET, secret_at + 8) - seed & MASK))


def up_to_16(data, seed):
    n = len(data)
    if n > 8:
        low = r64(data, 0) ^ ((r64(SECRET, 24) ^ r64(SECRET, 32)) + seed & MASK)
        high = r64(data, n - 8) ^ ((r64(SECRET, 40) ^ r64(SECRET, 48)) - seed & MASK)
        return avalanche(n + swap(low, 8) + high + fold(low, high) & MASK)
    if n >= 4:
        seed ^= swap(seed & 0xFFFFFFFF, 4) << 32
        h = r32(data, n - 4) + (r32(data, 0) << 32) ^ ((r64(SECRET, 8) ^ r64(SECRET, 16)) - seed & MASK)
        h = (h ^ rotl(h, 49) ^ rotl(h, 24)) * MX2 & MASK
        h = (h ^ (h >> 35) + n) * MX2 & MASK
        return h ^ h >> 28
    if n > 0:
        combined = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_xxh64(combined ^ ((r32(SECRET, 0) ^ r32(SECRET, 4)) + seed & MASK))
    return avalanche_xxh64(seed ^ r64(SECRET, 56) ^ r64(SECRET, 64))


def up_to_240(data, seed):
    n = len(data)
    h = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(data, 16 * i, 32 * i, seed) + mix16(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return avalanche(h & MASK)
    h = avalanche(h + sum(mix16(data, 16 * i, 16 * i, seed) for i in range(8)) & MASK)
    h += sum(mix16(data, 16 * i, 16 * (i - 8) + 3, seed) for i in range(8, n // 16))
    return avalanche(h + mix16(data, n - 16, 136 - 17, seed) & MASK)


def longer(data, seed):
    n = len(data)
    secret = b"".join((r64(SECRET, at) + (seed if at % 16 == 0 else -seed) & MASK).to_bytes(8, "little")
                      for at in range(0, 192, 8))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def accumulate(at, secret_at):
        for i in range(8):
            word = r64(data, at + 8 * i)
            key = word ^ r64(secret, secret_at + 8 * i)
            acc[i ^ 1] = acc[i ^ 1] + word & MASK
            acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & MASK

    for stripe in range((n - 1) // 64):
        accumulate(64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            acc[:] = [((a ^ a >> 47) ^ r64(secret, 128 + 8 * i)) * P32_1 & MASK for i, a in enumerate(acc)]
    accumulate(n - 64, 121)
    total = n * P64_1 + sum(fold(acc[2 * i] ^ r64(secret, 11 + 16 * i), acc[2 * i + 1] ^ r64(secret, 19 + 16 * i))
                            for i in range(4))
    return avalanche(total & MASK)


def xxh3(data, seed=0):
    data, seed = bytes(data), seed & MASK
    if len(data) <= 16:
        return up_to_16(data, seed)
    return up_to_240(data, seed) if len(data) <= 240 else longer(data, seed)
