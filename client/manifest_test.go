package client

import (
	"encoding/json"
	"testing"
)

// Keys that JSON cannot carry come as bytes beside: two of them are two.
func TestManifestKeysThatAreNoText(t *testing.T) {
	l := lines{most: 3}
	text := `[{"key":"a\ufffd","key_base64":"Yf8="},{"key":"a\ufffd","key_base64":"Yf4="},{"key":"plain"}]`
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a\xff", "a\xfe", "plain"} {
		if got := l.read[i].Key; got != want {
			t.Errorf("sample %d: got key %q, want %q", i, got, want)
		}
	}
}
