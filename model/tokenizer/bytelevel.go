package tokenizer

import "unicode/utf8"

// Byte-level vocabularies spell each byte as one printable character, so that
// a vocabulary is text whatever bytes its tokens stand for. Printable bytes
// of Latin-1 stand for themselves; the 68 others take the code points from
// U+0100 on, in order.
var (
	byteToRune [256]rune
	runeToByte [0x100 + 68]int16 // -1: not of the alphabet
)

func init() {
	for i := range runeToByte {
		runeToByte[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		printable := (r >= '!' && r <= '~') || (r >= 0xA1 && r <= 0xAC) || r >= 0xAE
		if !printable {
			r = next
			next++
		}
		byteToRune[b] = r
		runeToByte[r] = int16(b)
	}
}

// appendSpelled appends word to dst in the byte alphabet.
func appendSpelled(dst []byte, word string) []byte {
	for i := 0; i < len(word); i++ {
		dst = utf8.AppendRune(dst, byteToRune[word[i]])
	}
	return dst
}

// appendUnspelled appends the bytes that token stands for. A token with any
// character outside the alphabet stands for its own UTF-8 bytes.
func appendUnspelled(dst []byte, token string) []byte {
	start := len(dst)
	for _, r := range token {
		if int(r) >= len(runeToByte) || runeToByte[r] < 0 {
			return append(dst[:start], token...)
		}
		dst = append(dst, byte(runeToByte[r]))
	}
	return dst
}
