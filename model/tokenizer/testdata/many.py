"""More strings to encode: with texts.json.gz they are over a thousand. Every code point is one that Unicode 14 knows."""

import random
import unicodedata

import corpus

SPECIALS = """<s> </s> <unk> <pad> <bos> <eos> <|endoftext|> <|im_start|> <|im_end|> <|end|> <|user|> <|assistant|> <|begin_of_text|>
<|end_of_text|> <|start_of_role|> <BOS_TOKEN> <start_of_turn> <end_of_turn> <think> </think> <tool_call> [INST] [/INST] <0x41> <0xE2>
<mask> <end> [CLS] word""".split()

EMOJI = "😀 😂 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇫🇷 1️⃣ ❤️ 👩🏾‍💻 🦄 🌸 ☕ ✅ 🈁 🀄 ⚕️ 🧑🏻‍🤝‍🧑🏿 🫠".split()
SPACES = " \t\n\r\u00a0\u2003\u3000\u0085\u2028\u2029\u200b\u1680\v\f\x1c\x1f"
MARKS = "\u0300\u0301\u0308\u0327\u0338\u0344\u093c\u0e31\u3099\u309a\u20dd\u064b\u0f71\u1ab0\ufe20\U00011046\U0001d165"
SCRIPTS = [(0x41, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x6FF), (0x900, 0xDFF), (0xE00, 0x12BF), (0x13A0, 0x18AF),
           (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x2DFF), (0x3000, 0x33FF), (0x4E00, 0x9FA5), (0xA000, 0xABFF), (0xAC00, 0xD7A3),
           (0xF900, 0xFFEF), (0x10000, 0x109FF), (0x10A00, 0x11FFF), (0x12000, 0x1342F), (0x16800, 0x1D7FF), (0x1E000, 0x1FAFF),
           (0x20000, 0x2A6D0)]  # fmt: skip


def known(c):
    return unicodedata.category(c) not in ("Cn", "Cs", "Co")


def letters(rng):
    low, high = rng.choice(SCRIPTS)
    out = ""
    while len(out) < rng.randrange(1, 7):
        c = chr(rng.randrange(low, high + 1))
        if known(c):
            out += c
    return out


def code(rng):
    ops = ["=", "==", "->", "::", "();", "{", "}", "[i]", "//", "/*", "*/", "#", "$x", "\\n", "&&", "|", "+=", "'s'", '"', ",", "<T>", "@a"]
    words = ["self", "return", "camelCase", "snake_case", "HTTPServer", "x1", "0xFF", "NULL", "iPhone", "McDonald", "fooBAR", "ABCdef"]
    return "".join(rng.choice([rng.choice(ops), rng.choice(words), rng.choice([" ", "  ", "\n    ", "\t", "\n\n", "\r\n"])]) for _ in range(rng.randrange(3, 16)))


def text(rng):
    out = []
    for _ in range(rng.randrange(1, 7)):
        match rng.randrange(10):
            case 0:
                out.append("".join(rng.choice(SPACES) for _ in range(rng.randrange(1, 6))))
            case 1:
                out.append(" " * rng.randrange(1, 12) + rng.choice(["", "\n", "x"]))
            case 2:
                out.append(rng.choice(EMOJI) * rng.randrange(1, 3))
            case 3:
                out.append(rng.choice("aeioucñ가か한ा") + "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 4))))
            case 4:
                out.append(code(rng))
            case 5:
                s = rng.choice(SPECIALS)
                out.append(rng.choice([s, " " + s + " ", s[:-1], s[1:], s.upper(), s + "\n", s * 2]))
            case 6:
                out.append(rng.choice(corpus.WORDS) + rng.choice(["'s", "'LL", "'ve", "’s", "'", "ſ", "'ſ"]) + rng.choice(" .,!\n"))
            case 7:
                out.append(rng.choice(["", " ", "  "]) + str(rng.randrange(10 ** rng.randrange(1, 9))) + rng.choice(["", "½", "²", "٣", "%", ".", "/"]))
            case 8:
                out.append(letters(rng))
            case 9:
                w = " ".join(rng.choice(corpus.WORDS) for _ in range(rng.randrange(1, 4)))
                out.append(rng.choice([w, w.upper(), w.title(), " " + w + " ", w.swapcase()]))
    return "".join(out)


def texts():
    rng = random.Random(77)
    return [text(rng) for _ in range(760)]


def damaged():
    """Bytes that are not UTF-8, and the text they count as."""
    samples = [b"\xff", b"a\xffb", b"\xc3", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80",
               b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"x\x80\x80 y", "né".encode("latin-1"), "日本".encode("shift-jis"), b"\xef\xbf\xbe\xef\xbf\xbf", b"\xfe\xff\x00a"]  # fmt: skip
    return [dict(bytes=list(b), text=b.decode("utf-8", errors="replace")) for b in samples]
