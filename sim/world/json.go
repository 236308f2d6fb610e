package world

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the event as one JSON object without a newline: the fields
// in the order of Event, absent ones left out, times in seconds with as many
// digits as they need.
func (e Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(e.N), 10)
	b = append(b, `,"t":`...)
	b = AppendSeconds(b, e.T)
	b = appendText(b, "who", e.Who)
	b = appendText(b, "what", e.What)
	b = appendText(b, "name", e.Name)
	b = appendNumber(b, "token", e.Token)
	b = appendNumber(b, "fence", e.Fence)
	b = appendNumber(b, "rev", e.Rev)
	b = appendNumber(b, "term", e.Term)
	b = appendNumber(b, "epoch", e.Epoch)
	b = appendText(b, "lease", e.Lease)
	b = appendTime(b, "deadline", e.Deadline)
	b = appendTime(b, "stop", e.Stop)
	b = appendTime(b, "until", e.Until)
	b = appendTime(b, "clock", e.Clock)
	b = appendNumber(b, "chunk", uint64(max(e.Chunk, 0)))
	b = appendNumber(b, "rows", uint64(max(e.Rows, 0)))
	b = appendNumber(b, "count", uint64(max(e.Count, 0)))
	b = appendText(b, "peer", e.Peer)
	b = appendText(b, "state", e.State)
	b = appendText(b, "etag", e.ETag)
	b = appendText(b, "why", e.Why)
	b = appendText(b, "mark", e.Mark)
	return append(b, '}')
}

// MarshalJSON is AppendJSON.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendNumber(b []byte, key string, n uint64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendUint(appendKey(b, key), n, 10)
}

func appendTime(b []byte, key string, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return AppendSeconds(appendKey(b, key), d)
}

func appendText(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendQuoted(appendKey(b, key), s)
}

// appendQuoted writes a JSON string. strconv.AppendQuote writes Go's, whose
// escapes JSON does not know.
func appendQuoted(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default: // invalid UTF-8 has become U+FFFD
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// AppendSeconds appends d in seconds, exactly: 19.05, 4, -0.5.
func AppendSeconds(b []byte, d time.Duration) []byte {
	u := uint64(d)
	if d < 0 {
		b = append(b, '-')
		u = -u
	}
	b = strconv.AppendUint(b, u/1e9, 10)
	frac := u % 1e9
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for digit := uint64(1e8); frac > 0; digit /= 10 {
		b = append(b, '0'+byte(frac/digit))
		frac %= digit
	}
	return b
}

// Seconds is d in seconds, exactly: "19.05".
func Seconds(d time.Duration) string { return string(AppendSeconds(nil, d)) }
