package s3backend

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
)

// service implements enough of S3 for a whole store, based on a store in memory. Its lists have
// small pages.
type service struct {
	store *memstore.Store

	mu     sync.Mutex
	tokens map[string]string         // token of the last Put, by key
	parts  map[string]map[int][]byte // by upload
	fault  func(w http.ResponseWriter, r *http.Request) (answered bool)
	log    []string // method and distinguishing parameters of each request
}

const pageKeys = 7

func newService() *service {
	return &service{store: memstore.New(), tokens: map[string]string{}, parts: map[string]map[int][]byte{}}
}

// serviceBackend returns a backend on s without credentials, so that bodies arrive unchanged.
func serviceBackend(t *testing.T, s *service) *Backend {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return opened(t, Config{Bucket: "train", Endpoint: srv.URL, PathStyle: true, PartSize: minPart}, quick())
}

// faults sets a function that may respond instead of the service.
func (s *service) faults(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.log = f, nil
}

func (s *service) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	s.log = append(s.log, strings.TrimSpace(r.Method+" "+q.Get("start-after")+q.Get("partNumber")))
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	key := strings.TrimPrefix(r.URL.Path, "/train/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case q.Has("list-type"):
		s.list(w, r, q)
	case q.Has("uploads"):
		s.begin(w, r)
	case r.Method == http.MethodPut && q.Has("uploadId"):
		s.part(w, q, body)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		s.complete(w, r, key, q.Get("uploadId"), body)
	case r.Method == http.MethodDelete:
		s.delete(w, r, key, q.Get("uploadId"))
	case r.Method == http.MethodPut:
		if o := s.put(w, r, key, r.Header.Get("X-Amz-Meta-Millrace-Put"), body); o.ETag != "" {
			w.Header().Set("ETag", `"`+o.ETag+`"`)
		}
	default:
		s.get(w, r, key)
	}
}

// say writes an error as S3 does.
func say(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

func sayError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		say(w, http.StatusNotFound, "NoSuchKey")
	case errors.Is(err, objstore.ErrChanged):
		say(w, http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		say(w, http.StatusInternalServerError, "InternalError")
	}
}

func (s *service) get(w http.ResponseWriter, r *http.Request, key string) {
	o, err := s.store.Stat(r.Context(), key)
	if err != nil {
		sayError(w, err)
		return
	}
	s.mu.Lock()
	w.Header().Set("X-Amz-Meta-Millrace-Put", s.tokens[key])
	s.mu.Unlock()
	w.Header().Set("ETag", `"`+o.ETag+`"`)
	data, _ := s.store.Bytes(key)
	http.ServeContent(w, r, "", o.Modified, bytes.NewReader(data))
}

func (s *service) put(w http.ResponseWriter, r *http.Request, key, token string, body []byte) objstore.Object {
	cond := objstore.Condition{IfAbsent: r.Header.Get("If-None-Match") == "*", IfMatch: strings.Trim(r.Header.Get("If-Match"), `"`)}
	o, err := s.store.Put(r.Context(), key, bytes.NewReader(body), int64(len(body)), cond)
	if err != nil {
		sayError(w, err)
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[key] = token
	return o
}

func (s *service) delete(w http.ResponseWriter, r *http.Request, key, upload string) {
	if upload != "" {
		s.mu.Lock()
		delete(s.parts, upload)
		s.mu.Unlock()
	} else if err := s.store.Delete(r.Context(), key); err != nil {
		sayError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) begin(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("X-Amz-Meta-Millrace-Put") // unique, and also the token of the object
	s.parts[id] = map[int][]byte{}
	fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
}

func (s *service) part(w http.ResponseWriter, q url.Values, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(q.Get("partNumber"))
	upload, ok := s.parts[q.Get("uploadId")]
	if !ok {
		say(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	upload[n] = body
	w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, n, len(body)))
}

func (s *service) complete(w http.ResponseWriter, r *http.Request, key, upload string, body []byte) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		say(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	s.mu.Lock()
	var whole []byte
	for _, p := range list.Part {
		part := s.parts[upload][p.PartNumber]
		if strings.Trim(p.ETag, `"`) != fmt.Sprintf("%d-%d", p.PartNumber, len(part)) {
			s.mu.Unlock()
			say(w, http.StatusBadRequest, "InvalidPart")
			return
		}
		whole = append(whole, part...)
	}
	s.mu.Unlock()
	if o := s.put(w, r, key, upload, whole); o.ETag != "" {
		s.mu.Lock()
		delete(s.parts, upload)
		s.mu.Unlock()
		fmt.Fprintf(w, `<CompleteMultipartUploadResult><Bucket>train</Bucket><ETag>"%s"</ETag></CompleteMultipartUploadResult>`, o.ETag)
	}
}

// listResult is the response to a list request.
type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
	Contents              []listedObject
}

type listedObject struct {
	Key          string
	Size         int64
	ETag         string
	LastModified string
}

func (s *service) list(w http.ResponseWriter, r *http.Request, q url.Values) {
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	page := listResult{EncodingType: "url"}
	errFull := errors.New("page is full")
	err := s.store.List(r.Context(), q.Get("prefix"), func(o objstore.Object) error {
		if o.Key <= after {
			return nil
		}
		if len(page.Contents) == pageKeys {
			page.IsTruncated = true
			return errFull
		}
		page.Contents = append(page.Contents, listedObject{url.QueryEscape(o.Key), o.Size, `"` + o.ETag + `"`, o.Modified.Format(time.RFC3339)})
		page.NextContinuationToken = o.Key
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		sayError(w, err)
		return
	}
	writeList(w, &page)
}

func writeList(w io.Writer, page *listResult) {
	_ = xml.NewEncoder(w).Encode(page) // the client checks the bytes
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		t.Helper()
		return serviceBackend(t, newService())
	})
}
