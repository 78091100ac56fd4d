package body

import (
	"bytes"
	"cmp"
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

// contentTypes has the content types of parts by extension.
var contentTypes = map[string]string{
	"jpg":  "image/jpeg",
	"jpeg": "image/jpeg",
	"png":  "image/png",
	"gif":  "image/gif",
	"webp": "image/webp",
	"json": "application/json",
	"txt":  "text/plain",
	"cls":  "text/plain",
	"cls2": "text/plain",
	"csv":  "text/csv",
	"mp4":  "video/mp4",
	"mp3":  "audio/mpeg",
	"wav":  "audio/wav",
	"flac": "audio/flac",
}

// contentTypeOf returns the content type of a part, by its last extension.
func contentTypeOf(ext string) string {
	last := strings.ToLower(ext[strings.LastIndexByte(ext, '.')+1:])
	return cmp.Or(contentTypes[last], "application/octet-stream")
}

// plainName reports whether a name needs no escapes in a quoted string of a header.
func plainName(name string) bool {
	return bytes.IndexFunc([]byte(name), func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' }) < 0
}
