package tokenizer

import "unicode"

// The reference splits with newer tables than Go's Unicode 15: letters,
// numbers and marks of Unicode 16 in its regular expressions, those of 17 in
// Digits. Its Punctuation in turn has a table of Unicode 7. What differs is
// here; TestClassesEqualReference goes through every code point. Patterns
// without a scanner still see Go's tables, and so do NFC and its kin.

// newLetters are \p{L} beyond Go's tables.
var newLetters = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x1C89, Hi: 0x1C8A, Stride: 1}, {Lo: 0xA7CB, Hi: 0xA7CD, Stride: 1}, {Lo: 0xA7DA, Hi: 0xA7DC, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x105C0, Hi: 0x105F3, Stride: 1}, {Lo: 0x10D4A, Hi: 0x10D65, Stride: 1}, {Lo: 0x10D6F, Hi: 0x10D85, Stride: 1},
		{Lo: 0x10EC2, Hi: 0x10EC4, Stride: 1}, {Lo: 0x11380, Hi: 0x11389, Stride: 1}, {Lo: 0x1138B, Hi: 0x1138B, Stride: 1},
		{Lo: 0x1138E, Hi: 0x1138E, Stride: 1}, {Lo: 0x11390, Hi: 0x113B5, Stride: 1}, {Lo: 0x113B7, Hi: 0x113B7, Stride: 1},
		{Lo: 0x113D1, Hi: 0x113D1, Stride: 1}, {Lo: 0x113D3, Hi: 0x113D3, Stride: 1}, {Lo: 0x11BC0, Hi: 0x11BE0, Stride: 1},
		{Lo: 0x13460, Hi: 0x143FA, Stride: 1}, {Lo: 0x16100, Hi: 0x1611D, Stride: 1}, {Lo: 0x16D40, Hi: 0x16D6C, Stride: 1},
		{Lo: 0x18CFF, Hi: 0x18CFF, Stride: 1}, {Lo: 0x1E5D0, Hi: 0x1E5ED, Stride: 1}, {Lo: 0x1E5F0, Hi: 0x1E5F0, Stride: 1},
		{Lo: 0x2EBF0, Hi: 0x2EE5D, Stride: 1},
	},
}

// newMarks are \p{M} beyond Go's tables.
var newMarks = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x897, Hi: 0x897, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x10D69, Hi: 0x10D6D, Stride: 1}, {Lo: 0x10EFC, Hi: 0x10EFC, Stride: 1}, {Lo: 0x113B8, Hi: 0x113C0, Stride: 1},
		{Lo: 0x113C2, Hi: 0x113C2, Stride: 1}, {Lo: 0x113C5, Hi: 0x113C5, Stride: 1}, {Lo: 0x113C7, Hi: 0x113CA, Stride: 1},
		{Lo: 0x113CC, Hi: 0x113D0, Stride: 1}, {Lo: 0x113D2, Hi: 0x113D2, Stride: 1}, {Lo: 0x113E1, Hi: 0x113E2, Stride: 1},
		{Lo: 0x11F5A, Hi: 0x11F5A, Stride: 1}, {Lo: 0x1611E, Hi: 0x1612F, Stride: 1}, {Lo: 0x1E5EE, Hi: 0x1E5EF, Stride: 1},
	},
}

// newUpper and newLower are the cased ones among newLetters; the others have
// no case and count as both.
var (
	newUpper = &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x1C89, Hi: 0x1C89, Stride: 1}, {Lo: 0xA7CB, Hi: 0xA7CC, Stride: 1}, {Lo: 0xA7DA, Hi: 0xA7DC, Stride: 2}},
		R32: []unicode.Range32{{Lo: 0x10D50, Hi: 0x10D65, Stride: 1}},
	}
	newLower = &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x1C8A, Hi: 0x1C8A, Stride: 1}, {Lo: 0xA7CD, Hi: 0xA7CD, Stride: 1}, {Lo: 0xA7DB, Hi: 0xA7DB, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0x10D70, Hi: 0x10D85, Stride: 1}},
	}
)

// newNumbers are \p{N} beyond Go's tables, newNumerics what Digits knows besides.
var (
	newNumbers = &unicode.RangeTable{R32: []unicode.Range32{
		{Lo: 0x10D40, Hi: 0x10D49, Stride: 1}, {Lo: 0x116D0, Hi: 0x116E3, Stride: 1}, {Lo: 0x11BF0, Hi: 0x11BF9, Stride: 1},
		{Lo: 0x16130, Hi: 0x16139, Stride: 1}, {Lo: 0x16D70, Hi: 0x16D79, Stride: 1}, {Lo: 0x1CCF0, Hi: 0x1CCF9, Stride: 1},
		{Lo: 0x1E5F1, Hi: 0x1E5FA, Stride: 1},
	}}
	newNumerics = &unicode.RangeTable{R32: []unicode.Range32{{Lo: 0x11DE0, Hi: 0x11DE9, Stride: 1}, {Lo: 0x16FF4, Hi: 0x16FF6, Stride: 1}}}
)

// newPunctuation is punctuation that the reference's table does not have yet;
// oldPunctuation has become something else since.
var (
	newPunctuation = &unicode.RangeTable{
		R16: []unicode.Range16{
			{Lo: 0x61D, Hi: 0x61D, Stride: 1}, {Lo: 0x9FD, Hi: 0x9FD, Stride: 1}, {Lo: 0xA76, Hi: 0xA76, Stride: 1},
			{Lo: 0xC77, Hi: 0xC77, Stride: 1}, {Lo: 0xC84, Hi: 0xC84, Stride: 1}, {Lo: 0x1B4E, Hi: 0x1B4F, Stride: 1},
			{Lo: 0x1B7D, Hi: 0x1B7F, Stride: 1}, {Lo: 0x2E43, Hi: 0x2E5D, Stride: 1},
		},
		R32: []unicode.Range32{
			{Lo: 0x10D6E, Hi: 0x10D6E, Stride: 1}, {Lo: 0x10EAD, Hi: 0x10EAD, Stride: 1}, {Lo: 0x10F55, Hi: 0x10F59, Stride: 1},
			{Lo: 0x10F86, Hi: 0x10F89, Stride: 1}, {Lo: 0x113D4, Hi: 0x113D8, Stride: 1}, {Lo: 0x1144B, Hi: 0x1145D, Stride: 1},
			{Lo: 0x11660, Hi: 0x1166C, Stride: 1}, {Lo: 0x116B9, Hi: 0x116B9, Stride: 1}, {Lo: 0x1183B, Hi: 0x1183B, Stride: 1},
			{Lo: 0x11944, Hi: 0x11946, Stride: 1}, {Lo: 0x119E2, Hi: 0x119E2, Stride: 1}, {Lo: 0x11A3F, Hi: 0x11AA2, Stride: 1},
			{Lo: 0x11B00, Hi: 0x11B09, Stride: 1}, {Lo: 0x11BE1, Hi: 0x11BE1, Stride: 1}, {Lo: 0x11C41, Hi: 0x11C71, Stride: 1},
			{Lo: 0x11EF7, Hi: 0x11EF8, Stride: 1}, {Lo: 0x11F43, Hi: 0x11F4F, Stride: 1}, {Lo: 0x11FFF, Hi: 0x11FFF, Stride: 1},
			{Lo: 0x12FF1, Hi: 0x12FF2, Stride: 1}, {Lo: 0x16D6D, Hi: 0x16D6F, Stride: 1}, {Lo: 0x16E97, Hi: 0x16E9A, Stride: 1},
			{Lo: 0x16FE2, Hi: 0x16FE2, Stride: 1}, {Lo: 0x1E5FF, Hi: 0x1E5FF, Stride: 1}, {Lo: 0x1E95E, Hi: 0x1E95F, Stride: 1},
		},
	}
	oldPunctuation = &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x166D, Hi: 0x166D, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0x111C9, Hi: 0x111C9, Stride: 1}},
	}
)

// isUpperish is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]: what can begin a cased word.
func isUpperish(r rune) bool {
	if r < 0x80 {
		return r >= 'A' && r <= 'Z'
	}
	return unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M, newMarks) ||
		unicode.Is(newLetters, r) && !unicode.Is(newLower, r)
}

// isLowerish is [\p{Ll}\p{Lm}\p{Lo}\p{M}]: what can end one.
func isLowerish(r rune) bool {
	if r < 0x80 {
		return r >= 'a' && r <= 'z'
	}
	return unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M, newMarks) ||
		unicode.Is(newLetters, r) && !unicode.Is(newUpper, r)
}

// isNumeric is what the reference's Digits takes for a digit: category N.
func isNumeric(r rune) bool { return unicode.In(r, unicode.N, newNumbers, newNumerics) }

func isPunctuation(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < 0x7F && asciiClass[r] == other
	}
	return unicode.Is(unicode.P, r) && !unicode.Is(newPunctuation, r) || unicode.Is(oldPunctuation, r)
}

// newNorm are the code points whose normal forms, or whose order among marks,
// came after the reference's tables (Unicode 9): it leaves them as they are.
var newNorm = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x7FD, Hi: 0x7FD, Stride: 1}, {Lo: 0x898, Hi: 0x89F, Stride: 1}, {Lo: 0x8CA, Hi: 0x8D3, Stride: 1},
		{Lo: 0x9FE, Hi: 0x9FE, Stride: 1}, {Lo: 0xC3C, Hi: 0xC3C, Stride: 1}, {Lo: 0xD3B, Hi: 0xD3C, Stride: 1},
		{Lo: 0xEBA, Hi: 0xEBA, Stride: 1}, {Lo: 0x1715, Hi: 0x1715, Stride: 1}, {Lo: 0x1ABF, Hi: 0x1ACE, Stride: 1},
		{Lo: 0x1DF6, Hi: 0x1DFA, Stride: 1}, {Lo: 0x32FF, Hi: 0x32FF, Stride: 1}, {Lo: 0xA7F2, Hi: 0xA7F4, Stride: 1},
		{Lo: 0xA82C, Hi: 0xA82C, Stride: 1}, {Lo: 0xAB69, Hi: 0xAB69, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x10781, Hi: 0x10785, Stride: 1}, {Lo: 0x10787, Hi: 0x107B0, Stride: 1}, {Lo: 0x107B2, Hi: 0x107BA, Stride: 1},
		{Lo: 0x10D24, Hi: 0x10D27, Stride: 1}, {Lo: 0x10EAB, Hi: 0x10EAC, Stride: 1}, {Lo: 0x10EFD, Hi: 0x10EFF, Stride: 1},
		{Lo: 0x10F46, Hi: 0x10F50, Stride: 1}, {Lo: 0x10F82, Hi: 0x10F85, Stride: 1}, {Lo: 0x11070, Hi: 0x11070, Stride: 1},
		{Lo: 0x1133B, Hi: 0x1133B, Stride: 1}, {Lo: 0x1145E, Hi: 0x1145E, Stride: 1}, {Lo: 0x11839, Hi: 0x1183A, Stride: 1},
		{Lo: 0x11938, Hi: 0x11938, Stride: 1}, {Lo: 0x1193D, Hi: 0x1193E, Stride: 1}, {Lo: 0x11943, Hi: 0x11943, Stride: 1},
		{Lo: 0x119E0, Hi: 0x119E0, Stride: 1}, {Lo: 0x11A34, Hi: 0x11A34, Stride: 1}, {Lo: 0x11A47, Hi: 0x11A47, Stride: 1},
		{Lo: 0x11A99, Hi: 0x11A99, Stride: 1}, {Lo: 0x11D42, Hi: 0x11D42, Stride: 1}, {Lo: 0x11D44, Hi: 0x11D45, Stride: 1},
		{Lo: 0x11D97, Hi: 0x11D97, Stride: 1}, {Lo: 0x11F41, Hi: 0x11F42, Stride: 1}, {Lo: 0x16FF0, Hi: 0x16FF1, Stride: 1},
		{Lo: 0x1E030, Hi: 0x1E06D, Stride: 1}, {Lo: 0x1E08F, Hi: 0x1E08F, Stride: 1}, {Lo: 0x1E130, Hi: 0x1E136, Stride: 1},
		{Lo: 0x1E2AE, Hi: 0x1E2AE, Stride: 1}, {Lo: 0x1E2EC, Hi: 0x1E2EF, Stride: 1}, {Lo: 0x1E4EC, Hi: 0x1E4EF, Stride: 1},
		{Lo: 0x1F16C, Hi: 0x1F16C, Stride: 1}, {Lo: 0x1FBF0, Hi: 0x1FBF9, Stride: 1},
	},
}
