package s3backend

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestCheckHead_TakesOnlyTheBytesAskedFor checks, for each response that may be accepted, that
// responses which differ by one byte are not.
func TestCheckHead_TakesOnlyTheBytesAskedFor(t *testing.T) {
	short := func(total int) error {
		return &failure{kind: objstore.ErrShort, detail: fmt.Sprintf("the object has %d bytes", total)}
	}
	wrong := errors.New("wrong answer")
	for _, c := range []struct {
		from, n int64
		status  int
		part    string // Content-Range
		length  int64
		total   int64 // size of the object, if the response is accepted
		err     error
	}{
		{10, 10, 206, "bytes 10-19/100", 10, 100, nil},
		{10, 10, 206, "bytes 10-19/20", 10, 20, nil},
		{10, 10, 206, "bytes 10-19/100", -1, 100, nil},
		{10, 10, 206, "bytes 10-19/100", 9, 0, wrong},
		{10, 10, 206, "bytes 10-19/100", 11, 0, wrong},
		{10, 10, 206, "bytes 10-19/19", 10, 0, wrong},
		{10, 10, 206, "bytes 10-18/19", 9, 0, &failure{kind: objstore.ErrShort, detail: "10 bytes requested, the object has 9"}},
		{10, 10, 206, "bytes 10-18/20", 9, 0, wrong},
		{10, 10, 206, "bytes 10-20/21", 11, 0, wrong},
		{10, 10, 206, "bytes 9-18/100", 10, 0, wrong},
		{10, 10, 206, "bytes 11-20/100", 10, 0, wrong},
		{10, 10, 206, "bytes 10-9/100", 0, 0, wrong},
		{10, 10, 206, "10-19/100", 10, 0, wrong},
		{10, 10, 206, "bytes 10-19", 10, 0, wrong},
		{10, 10, 206, "", 10, 0, wrong},
		{10, 1, 206, "bytes 10-10/11", 1, 11, nil},
		{10, -1, 206, "bytes 10-99/100", 90, 100, nil},
		{10, -1, 206, "bytes 10-98/100", 89, 0, wrong},
		{0, 100, 200, "", 100, 100, nil},
		{0, 100, 200, "", 101, 0, wrong},
		{0, 100, 200, "", 99, 0, short(99)},
		{0, 100, 200, "", -1, 0, wrong},
		{0, 100, 200, "bytes 0-99/100", 100, 0, wrong},
		{0, -1, 200, "", 100, 100, nil},
		{0, -1, 200, "", 0, 0, nil},
		{0, -1, 200, "", -1, -1, nil},
		{10, 10, 200, "", 19, 0, short(19)},
		{10, 10, 200, "", 20, 0, wrong},
		{10, -1, 200, "", 9, 0, short(9)},
		{10, -1, 200, "", 10, 0, wrong},
		{0, 100, 204, "", 100, 0, wrong},
	} {
		resp := &http.Response{StatusCode: c.status, ContentLength: c.length, Body: http.NoBody, Header: http.Header{"Etag": {`"e"`}}}
		if c.part != "" {
			resp.Header.Set("Content-Range", c.part)
		}
		ans, err := checkHead(resp, "e", c.from, c.n)
		switch {
		case c.err == nil && (err != nil || ans != answer{http.NoBody, "e", c.total, c.length >= 0}):
			t.Errorf("%+v: got %+v, %v", c, ans, err)
		case errors.Is(c.err, wrong) && (!errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "invalid response: ") || !classify(err).retry):
			t.Errorf("%+v: got %v, want another attempt", c, err)
		case c.err != nil && !errors.Is(c.err, wrong) && (err == nil || err.Error() != c.err.Error() || classify(err).retry):
			t.Errorf("%+v: got %v, want no other attempt", c, err)
		}
	}
	for tag, want := range map[string]string{`"e"`: "", "e": "", `"f"`: "changed: it is f, expected e", "": "unavailable: invalid response: ETag is missing", `""`: "unavailable: invalid response: ETag is missing"} {
		resp := &http.Response{StatusCode: 200, ContentLength: 1, Header: http.Header{"Etag": {tag}}}
		if _, err := checkHead(resp, "e", 0, 1); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("ETag %s: got %v, want %s", tag, err, want)
		}
		if ans, err := checkHead(resp, "", 0, 1); want != "" && tag == `"f"` && (err != nil || ans.etag != "f") {
			t.Errorf("any version: got %+v, %v", ans, err)
		}
	}
}
