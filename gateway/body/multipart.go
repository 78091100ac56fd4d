package body

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// boundaryOf returns the boundary of a multipart body. The boundary depends on the ETag, and
// therefore on the generation, which is a digest of the data: no data can contain its own boundary.
func boundaryOf(etag string) string {
	sum := sha256.Sum256([]byte("millrace boundary\n" + etag))
	return "millrace-" + hex.EncodeToString(sum[:16])
}

// layOutMultipart lays out one body part per part of a sample.
func layOutMultipart(ctx context.Context, b *Body, a Answer) error {
	t, err := b.readTexts(ctx, a)
	if err != nil {
		return err
	}
	boundary := boundaryOf(a.ETag)
	begin := "--" + boundary + "\r\nContent-Type: "
	for i, all := range t.parts {
		for _, p := range all {
			name := memberName(t.keys[i], p.Ext)
			if err := b.checkText(int64(len(begin)+3*len(name)) + 256); err != nil {
				return err
			}
			b.putString(begin)
			b.putString(contentTypeOf(p.Ext))
			b.putString("\r\nContent-Length: " + strconv.FormatUint(uint64(p.Length), 10))
			b.putString("\r\nContent-Disposition: attachment; " + filename(name) + "\r\n\r\n")
			b.stretchPart(i, p)
			b.putString("\r\n")
		}
	}
	b.putString("--" + boundary + "--\r\n")
	return nil
}

// filename returns the parameter with a file name, escaped by RFC 8187 if needed.
func filename(name string) string {
	if plainName(name) {
		return `filename="` + name + `"`
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString("filename*=UTF-8''")
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$&+-.^_`|~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// contentTypeOf returns the content type of a part, by its last extension.
func contentTypeOf(ext string) string {
	switch strings.ToLower(ext[strings.LastIndexByte(ext, '.')+1:]) {
	case "jpg", "jpeg":
		return "image/jpeg"
	case "png":
		return "image/png"
	case "gif":
		return "image/gif"
	case "webp":
		return "image/webp"
	case "json":
		return "application/json"
	case "txt", "cls", "cls2":
		return "text/plain"
	case "csv":
		return "text/csv"
	case "mp4":
		return "video/mp4"
	case "mp3":
		return "audio/mpeg"
	case "wav":
		return "audio/wav"
	case "flac":
		return "audio/flac"
	}
	return "application/octet-stream"
}

// plainName reports whether a name needs no escapes in a quoted string of a header.
func plainName(name string) bool {
	return bytes.IndexFunc([]byte(name), func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' }) < 0
}
