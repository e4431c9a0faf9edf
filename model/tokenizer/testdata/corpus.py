"""Text to learn vocabularies from, and text to encode. All of it is made up here."""

import random

WORDS = """the a of to and in is it that for on with as was at by an be this from are have not but they his her you we
which one all their there would about when who more if no out so what up some into than then its time only could these
two may first other new over such people now made after also did many before must through years where much way well
down should because each those work life world still long own see men last day same great being use another under
water light stone river mountain garden flower petal whorl leaf bridge machine block token server model weight memory
number letter sound silence morning evening winter summer children house street window doctor teacher engine signal
don't can't won't it's we've they're I'm you'll he'd running walked quickly certainly information nation station
interesting question answer whether because international language learning computing network distributed""".split()

FOREIGN = [
    "Привет, как дела? Сегодня хорошая погода, и мы идём гулять в парк.",
    "Der schnelle braune Fuchs springt über den faulen Hund; Größe, Straße, Äpfel.",
    "El niño comió una manzana mañana por la mañana, ¿verdad? ¡Sí!",
    "今天天气很好，我们一起去公园散步吧。你好，世界！",
    "吾輩は学生である。東京タワーに行きました。カタカナとひらがな。",
    "안녕하세요, 오늘은 날씨가 좋습니다. 감사합니다.",
    "मैं आज बाज़ार जा रहा हूँ। नमस्ते दुनिया",
    "مرحبا بالعالم، كيف حالك اليوم؟",
    "Γειά σου Κόσμε, τι κάνεις σήμερα;",
    "Xin chào thế giới, hôm nay trời đẹp quá.",
    "สวัสดีชาวโลก วันนี้อากาศดี",
]

CODE = [
    "def step(self, hidden, cache=None):\n    for block in self.blocks[start:end]:\n        hidden = block(hidden, cache)\n    return hidden\n",
    "func (s *Server) Run(ctx context.Context) error {\n\tif err := s.load(); err != nil {\n\t\treturn fmt.Errorf(\"load: %w\", err)\n\t}\n\treturn nil\n}\n",
    "const x = items.map((i) => i.value * 2).filter(Boolean);\n",
    "SELECT name, count(*) FROM peers WHERE seen > now() - 30 GROUP BY 1;\n",
    '<div class="card"><a href="#top">up</a></div>\n',
    "{\"ids\": [1, 2, 3], \"text\": null, \"p\": 0.25}\n",
]


def lines():
    rng = random.Random(3)
    for _ in range(1500):
        words = [rng.choice(WORDS) for _ in range(rng.randrange(4, 16))]
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), str(rng.randrange(10 ** rng.randrange(1, 6))))
        yield words[0].capitalize() + " " + " ".join(words[1:]) + rng.choice([".", ".", "!", "?", ";", ","])
    for _ in range(12):
        yield from FOREIGN
        yield from CODE


def hand_made():
    """Some 190 strings, most of them unpleasant."""
    s = ["", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t x", " \n ", "\x00", "a\x00b", "\x7f", "\x1b[31mred\x1b[0m", "\u200b", "\ufeff"]
    s += ["Hello", " Hello", "  Hello", "Hello ", "Hello  ", "Hello world", "Hello  world", "Hello   world ", "hello\nworld", "hello \n world"]
    s += ["hello\r\nworld\r\n", "line one\n\n\nline four", "\n\nstart", "end\n\n", "tabs\tand\t\ttabs", "a\u00a0b", "a\u3000b\u2003c", "x\u0085y", "x\u2028y"]
    s += ["I'm you'll he'd we've they're it's don't", "I'M YOU'LL HE'D WE'VE THEY'RE IT'S DON'T", "'s", "'S", "'ll", "x'lly", "'ſ", "it'ſ", "''", "'", "'x", "rock 'n' roll", "‘curly’ ‘s"]
    s += ["0", "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "v1.2.3", "2026-11-28", "12:34:56", "0x1F", "a1b2c3", "1st 2nd", " 1 2  3", "½ ² Ⅷ ٣٤ ४२ ①", "१२३४", "x²+y²"]
    s += ["...", "!!!", "?!", "a...b", "--flag=value", "a_b_c", "C++ & C#", "foo(bar)[baz]{qux}", "$100 €50 £20 ¥9", "#tag @user", "~`|\\/", "«quoted»", "„so“", "“and so”", "…", "a…b", "100%", "<tag/>", "a<b>c", "::", "=>", "!\n", "! \n", "?\r\n\r\n", ")\n\n)"]
    s += FOREIGN + CODE
    s += ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "a😀b", "😀😀😀", " 😀 ", "1️⃣", "❤️", "👩🏾‍💻 codes", "🦄🌸"]
    s += ["é", "e\u0301", "ñ n\u0303", "Å Å A\u030a", "ﬁ ﬂ ﬀ", "㍿ ① Ａｂｃ", "한 한", "ｶﾞ ガ", "İstanbul ıI", "ẞ ß", "Σίσυφος ΣΊΣΥΦΟΣ", "\u0344", "क़ क\u093c", "\u1e9b\u0323", "été ete\u0301 été"]
    s += ["日本語テキスト", "中文,标点。和 空格", "漢字kanji混合123", "你好", "你", "好 ", " 好", "가나다", "𠀀𠀁", "𝔘𝔫𝔦", "🀄︎"]
    for t in ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<s>", "</s>", "<unk>", "<0x41>", "<0x0A>", "[CLS]", "[SEP]", "<END>", "<Raw>", "<repo_name>"]:
        s += [t, f"a{t}b", f" {t} ", f"{t}{t}", f"x {t}  y"]
    s += ["<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<|im_start", "|im_end|>", "<|im_<|im_end|>end|>", "<<s>>", "< s >", "<S>", "<end>", "<eND>", "<raw>", "<|IM_END|>", "[cls]"]
    s += ["<think>hm</think>", " <think> ", "a <mask> b", "a  <mask>  b", "<mask><mask>", "a <pad>  b", "<pad>\n\n<pad>", "word", "words", "a word.", "sword", "word_word", "word-word", "wordé", "été<mask>word <pad> x"]
    s += ["▁", "▁▁", "a▁b", "▁Hello", " ▁ ", "Ġ", "ĠHello Ċ", "Ā", "<0xZZ>", "<0xe4>"]
    s += ["a" * 300, "ab" * 200, "the " * 60, " " * 100, "\n" * 50, "x" + " " * 40 + "y", "1" * 50, "!" * 70, "é" * 60, "😀" * 20, "Hello" * 30]
    s += ["The quick brown fox jumps over the lazy dog.", "A whorl is the ring of petals of one flower.", "It was, he said, \"the best of times\" (1859).", "https://example.org/a/b?c=d&e=f#g", "mail@example.org", "CamelCaseWord snake_case_word kebab-case-word", "ALL CAPS TEXT", "mIxEd CaSe", "e.g. i.e. etc.", "Dr. Smith's 3rd-best idea", "a,b;c:d", "end."]
    return s
