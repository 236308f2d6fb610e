package explore

import (
	"math"
	"reflect"
)

// hash64 is FNV-1a over everything that a value consists of, unexported fields
// too: two states of a search are the same if all their machines remember the
// same. Maps and functions are not hashed; no machine of a search has any.
type hash64 uint64

const (
	fnvOffset hash64 = 14695981039346656037
	fnvPrime  hash64 = 1099511628211
)

func (h *hash64) byte(b byte) { *h = (*h ^ hash64(b)) * fnvPrime }

func (h *hash64) uint(n uint64) {
	for range 8 {
		h.byte(byte(n))
		n >>= 8
	}
}

func (h *hash64) text(s string) {
	h.uint(uint64(len(s)))
	for i := range len(s) {
		h.byte(s[i])
	}
}

func (h *hash64) any(v any) { h.value(reflect.ValueOf(v)) }

func (h *hash64) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			h.byte(1)
		} else {
			h.byte(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		h.uint(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		h.uint(v.Uint())
	case reflect.Float32, reflect.Float64:
		h.uint(math.Float64bits(v.Float()))
	case reflect.String:
		h.text(v.String())
	case reflect.Struct:
		t := v.Type()
		for i := range v.NumField() {
			if t.Field(i).Name != "now" { // of the last event; the next one brings its own
				h.value(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		h.uint(uint64(v.Len()))
		for i := range v.Len() {
			h.value(v.Index(i))
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			h.byte(0)
			return
		}
		h.byte(1)
		h.value(v.Elem())
	}
}
