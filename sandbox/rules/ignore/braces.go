package ignore

import "strings"

// maxAlternatives bounds what the braces of one line become.
const maxAlternatives = 256

func hasBraces(line string) bool { return strings.Contains(line, "{") }

// expandBraces lists what `a{b,c}d` stands for, nested braces included; nothing
// when there is no pair of braces. Escaped braces and those within brackets are
// characters. When there are too many, ok is false and one pattern covers all.
func expandBraces(line string) (lines []string, ok bool) {
	open, shut, commas := findBraces(line)
	if shut < 0 {
		return nil, true
	}
	tails, ok := expandBraces(line[shut+1:])
	if tails == nil {
		tails = []string{line[shut+1:]}
	}
	from := open + 1
	for _, to := range append(commas, shut) {
		heads, inner := expandBraces(line[from:to])
		if heads == nil {
			heads = []string{line[from:to]}
		}
		ok = ok && inner
		for _, h := range heads {
			for _, t := range tails {
				lines = append(lines, line[:open]+h+t)
			}
		}
		from = to + 1
		if !ok || len(lines) > maxAlternatives {
			return []string{line[:open] + "*"}, false
		}
	}
	return lines, true
}

// findBraces finds the first pair of braces with its own commas; shut is -1 when
// there is none.
func findBraces(line string) (open, shut int, commas []int) {
	depth, open := 0, -1
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			i++
		case c == '[':
			if n := bracketEnd(line[i:]); n > 0 {
				i += n
			}
		case c == '{':
			if depth++; depth == 1 {
				open, commas = i, nil
			}
		case c == ',' && depth == 1:
			commas = append(commas, i)
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, i, commas
			}
		}
	}
	return open, -1, nil
}

// bracketEnd is where the bracket expression at the front of s ends, or 0.
func bracketEnd(s string) int {
	from := 1
	if strings.HasPrefix(s[from:], "!") || strings.HasPrefix(s[from:], "^") {
		from++
	}
	if from+1 > len(s) {
		return 0
	}
	if end := strings.IndexByte(s[from+1:], ']'); end >= 0 {
		return from + 1 + end
	}
	return 0
}
