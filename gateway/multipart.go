package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// boundaryOf is the boundary of a multipart body. It follows from the ETag, and so from the generation, which is a digest of the
// data: whoever wanted his data to hold the boundary would have to know that digest before he writes them.
func boundaryOf(etag string) string {
	sum := sha256.Sum256([]byte("millrace boundary\n" + etag))
	return "millrace-" + hex.EncodeToString(sum[:16])
}

// layMultipart makes one body part of each part of a sample.
func layMultipart(ctx context.Context, a *answering, l *located) error {
	x := a.dataset.Index
	keys, err := readKeys(ctx, x, l.samples)
	if err != nil {
		return err
	}
	parts, err := readParts(ctx, x, l.samples, a.view.fields)
	if err != nil {
		return err
	}
	boundary := boundaryOf(a.etag)
	begin := "--" + boundary + "\r\nContent-Type: "
	for i, all := range parts {
		for _, p := range all {
			name := memberName(keys[i], p.Ext)
			if err := l.checkText(int64(len(begin)+3*len(name)) + 256); err != nil {
				return err
			}
			l.putString(begin)
			l.putString(contentTypeOf(p.Ext))
			l.putString("\r\nContent-Length: " + strconv.FormatUint(uint64(p.Length), 10))
			l.putString("\r\nContent-Disposition: attachment; " + filename(name) + "\r\n\r\n")
			l.stretch(i, p.Offset, p.Length, p.CRC32C)
			l.putString("\r\n")
		}
	}
	l.putString("--" + boundary + "--\r\n")
	return nil
}

// filename is the parameter that names a file, escaped as RFC 8187 says where the name is not plain.
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

// contentTypeOf is the content type of a part, by the last of its extensions.
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
