package grammar

// groups are kinds of characters, a bit each: what most states take or refuse together. Small
// letters are told apart, since names and words are; those of several bytes by their length, and
// by whether punctuation and rare white space are among them.
type groups uint64

const (
	control groups = 1 << iota // and DEL
	blank
	digit
	capital
	two                     // characters of two bytes
	spaced                  // of three, those that begin with 0xE2
	three                   // of three, the others
	four                    // of four
	torn                    // not a character: bytes of one that is not whole
	rare                    // j, q, x, z
	small                   // the first of the other letters
	mark   groups = 1 << 32 // the first of 32: what is printed and no letter, digit or blank
)

// groupOf is the group of each byte: of each that characters of several bytes begin with, and of
// the others of these none.
var groupOf = func() (of [256]groups) {
	letters, marks := 0, 0
	for b := range of {
		switch c := byte(b); {
		case c >= 0xF0:
			of[b] = four
		case c == 0xE2:
			of[b] = spaced
		case c >= 0xE0:
			of[b] = three
		case c >= 0xC0:
			of[b] = two
		case c >= 0x80:
		case c < ' ' || c == 0x7F:
			of[b] = control
		case c == ' ':
			of[b] = blank
		case '0' <= c && c <= '9':
			of[b] = digit
		case 'A' <= c && c <= 'Z':
			of[b] = capital
		case c == 'j', c == 'q', c == 'x', c == 'z':
			of[b] = rare
		case 'a' <= c && c <= 'z':
			of[b] = small << letters
			letters++
		default:
			of[b] = mark << marks
			marks++
		}
	}
	return of
}()

// plain are the characters that most texts may have.
var plain = ^(control | spaced | torn | groupOf['"'] | groupOf['\\'])

// wideForms are the bytes that characters of several bytes are made of: a first one, a second
// one, and so many of any.
var wideForms = []struct {
	first, second byteRange
	more          int
}{
	{byteRange{0xC2, 0xDF}, byteRange{0x80, 0xBF}, 0},
	{byteRange{0xE0, 0xE0}, byteRange{0xA0, 0xBF}, 1},
	{byteRange{0xE1, 0xE1}, byteRange{0x80, 0xBF}, 1},
	{byteRange{0xE2, 0xE2}, byteRange{0x80, 0xBF}, 1},
	{byteRange{0xE3, 0xEC}, byteRange{0x80, 0xBF}, 1},
	{byteRange{0xED, 0xED}, byteRange{0x80, 0x9F}, 1},
	{byteRange{0xEE, 0xEF}, byteRange{0x80, 0xBF}, 1},
	{byteRange{0xF0, 0xF0}, byteRange{0x90, 0xBF}, 2},
	{byteRange{0xF1, 0xF3}, byteRange{0x80, 0xBF}, 2},
	{byteRange{0xF4, 0xF4}, byteRange{0x80, 0x8F}, 2},
}
