package s3backend

import (
	"fmt"
	"net/http"
	"testing"
)

// FuzzResponseHeaders compares the header of any response with the requested range: an accepted
// response has the requested version and exactly the requested bytes.
func FuzzResponseHeaders(f *testing.F) {
	f.Add(206, "bytes 3-9/40", int64(7), testETag, testETag, int64(3), int64(7))
	f.Add(206, "bytes 3-39/40", int64(37), testETag, "", int64(3), int64(-1))
	f.Add(206, "bytes 4-10/40", int64(7), testETag, testETag, int64(3), int64(7))
	f.Add(206, "bytes 3-9/*", int64(7), testETag, testETag, int64(3), int64(7))
	f.Add(206, "bytes 3-9/9223372036854775808", int64(-1), testETag, "", int64(3), int64(7))
	f.Add(206, "bytes +3-9/40", int64(7), testETag, testETag, int64(3), int64(7))
	f.Add(200, "", int64(40), testETag, testETag, int64(3), int64(7))
	f.Add(200, "", int64(40), testETag, testETag, int64(0), int64(40))
	f.Add(200, "bytes 0-39/40", int64(40), testETag, "other", int64(0), int64(40))
	f.Add(204, "", int64(0), "", "", int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, status int, contentRange string, length int64, etag, want string, from, n int64) {
		if from < 0 || n == 0 || n < -1 || n > 0 && from > 1<<62-n || length < -1 {
			return // such requests and responses do not occur
		}
		resp := &http.Response{StatusCode: status, ContentLength: length, Header: http.Header{"Content-Range": {contentRange}, "Etag": {`"` + etag + `"`}}}
		ans, err := checkHead(resp, want, from, n)
		if err != nil {
			return
		}
		if etag == "" || want != "" && etag != want || ans.etag != etag {
			t.Fatalf("accepted version %q as %q, want %q", etag, ans.etag, want)
		}
		switch status {
		case http.StatusOK:
			if contentRange != "" || from != 0 || n > 0 && length != n || ans.total != length {
				t.Fatalf("accepted the whole object, %d bytes, for %d from %d", length, n, from)
			}
		case http.StatusPartialContent:
			last := from + n - 1
			if n < 0 {
				last = ans.total - 1
			}
			exact := fmt.Sprintf("%d-%d/%d", from, last, ans.total)
			if normal(contentRange) != exact || last >= ans.total || length >= 0 && length != last-from+1 {
				t.Fatalf("accepted %q with %d bytes, want %s", contentRange, length, exact)
			}
		default:
			t.Fatalf("accepted status %d", status)
		}
	})
}

// normal parses a Content-Range independently of the tested code, including leading zeros.
func normal(s string) string {
	var start, end, total int64
	if _, err := fmt.Sscanf(s, "bytes %d-%d/%d", &start, &end, &total); err != nil {
		return s
	}
	return fmt.Sprintf("%d-%d/%d", start, end, total)
}
