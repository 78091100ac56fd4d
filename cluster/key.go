package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
)

// ReadKey reads the key of a gossip from a file: 16, 24 or 32 bytes, as they are, in hexadecimal or in base64. What reads as text
// is text.
func ReadKey(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read gossip key: %w", err)
	}
	fits := func(key []byte) bool { return len(key) == 16 || len(key) == 24 || len(key) == 32 }
	text := string(bytes.TrimSpace(raw))
	if key, err := hex.DecodeString(text); err == nil && fits(key) {
		return key, nil
	}
	if key, err := base64.StdEncoding.DecodeString(text); err == nil && fits(key) {
		return key, nil
	}
	if fits(raw) {
		return raw, nil
	}
	return nil, fmt.Errorf("gossip key %s: holds %d bytes; want 16, 24 or 32, as they are, in hexadecimal or in base64 (openssl rand -base64 32)",
		file, len(raw))
}
