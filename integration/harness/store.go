package harness

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/certtest"
	"github.com/millrace-data/millrace/s3backend"
)

// Bucket is the bucket that exists on every server.
const Bucket = "train"

// Store is a store of datasets: a directory, or a real S3 server that runs as a child process of
// the test.
type Store struct {
	Name string
	Root string   // base URL of the datasets: file:///... or s3://bucket
	Env  []string // environment of a child process that reaches the store
	Path string   // directory that holds the objects as plain files; empty for MinIO

	server *Process
	at     *Node // node of the server and of commands on it; nil: this machine
}

// Kinds returns the names of all stores, for table tests over Open.
func Kinds() []string { return []string{"dir", "minio", "versitygw"} }

// Open starts a store of one kind.
func Open(t testing.TB, kind string) *Store {
	t.Helper()
	switch kind {
	case "dir":
		root := t.TempDir()
		return &Store{Name: kind, Root: "file://" + root, Path: root}
	case "minio":
		return OpenMinIO(t)
	case "versitygw":
		return openVersity(t)
	}
	t.Fatalf("open store: kind %q is unknown", kind)
	return nil
}

// Dataset returns the URL of a dataset of this store.
func (s *Store) Dataset(name string) string { return s.Root + "/" + name }

// OpenMinIO starts MinIO on a new directory, with additional variables in its environment. A
// directory made before the start is a bucket to it, so that no client is needed to create one.
func OpenMinIO(t testing.TB, more ...string) *Store {
	t.Helper()
	return startMinIO(t, nil, FreeAddress(t), more...)
}

// OpenMinIOTLS starts MinIO with a certificate of an authority that no client trusts by default.
func OpenMinIOTLS(t testing.TB, authority *certtest.Authority) *Store {
	t.Helper()
	files := authority.Issue(t, t.TempDir(), nil)
	dir := filepath.Dir(files.Cert)
	for from, to := range map[string]string{files.Cert: "public.crt", files.Key: "private.key"} { // file names that MinIO requires
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	asker := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}}
	address := FreeAddress(t)
	key, secret, server := beginMinIO(t, nil, address, nil, "--certs-dir", dir)
	server.Ready(t, func(ctx context.Context) error {
		r, err := DoWith(ctx, asker, http.MethodGet, "https://"+address+"/minio/health/cluster")
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("status %d", r.Status)
		}
		return err
	})
	store := s3Store("minio", address, key, secret, "", server)
	return store.With("AWS_ENDPOINT_URL_S3=https://"+address, "AWS_CA_BUNDLE="+authority.File)
}

// With returns the store with changed environment settings; later settings override earlier ones.
func (s *Store) With(env ...string) *Store {
	changed := *s
	changed.Env = append(slices.Clip(s.Env), env...)
	return &changed
}

// Setting returns the value of a variable in the store's environment.
func (s *Store) Setting(t testing.TB, name string) string {
	t.Helper()
	for _, pair := range slices.Backward(s.Env) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	t.Fatalf("%s has no %s", s.Name, name)
	return ""
}

// MinIOBehindCount starts MinIO on a node, behind a proxy that records its reads at port 9000 of
// the node's address. Commands that run on the store bypass the proxy.
func MinIOBehindCount(t testing.TB, at *Node, delay time.Duration) (*Store, *Reads) {
	t.Helper()
	const own = "127.0.0.1:9001"
	store := startMinIO(t, at, own)
	return store, CountReads(t, at, store, at.IP+":9000", own, delay)
}

// OpenCounted starts MinIO behind a proxy that records its reads, on this machine. All commands use
// the proxy.
func OpenCounted(t testing.TB) (*Store, *Reads) {
	t.Helper()
	own := FreeAddress(t)
	store := startMinIO(t, nil, own)
	reads := CountReads(t, nil, store, FreeAddress(t), own, 0)
	store.Env = reads.Env
	return store, reads
}

func startMinIO(t testing.TB, at *Node, address string, more ...string) *Store {
	t.Helper()
	key, secret, server := beginMinIO(t, at, address, more)
	server.Ready(t, at.answers("http://"+address+"/minio/health/cluster"))
	store := s3Store("minio", address, key, secret, "", server)
	store.at = at
	return store
}

// beginMinIO starts MinIO on a new directory, with additional variables and arguments. It does not
// wait for a response.
func beginMinIO(t testing.TB, at *Node, address string, more []string, args ...string) (key, secret string, server *Process) {
	t.Helper()
	data := t.TempDir()
	makeBucket(t, data)
	key, secret = credentials()
	env := append(append(baseEnv(t), "MINIO_ROOT_USER="+key, "MINIO_ROOT_PASSWORD="+secret, "MINIO_BROWSER=off"), more...)
	return key, secret, StartAt(t, at, "minio", Installed(t, "minio"), env, append(append([]string{"server", "--quiet", "--address", address}, args...), data)...)
}

// openVersity starts versitygw over a new directory, in which objects are plain files.
func openVersity(t testing.TB) *Store {
	t.Helper()
	data := t.TempDir()
	makeBucket(t, data)
	key, secret := credentials()
	address := FreeAddress(t)
	server := startVersity(t, address, key, secret, data)
	return s3Store("versitygw", address, key, secret, filepath.Join(data, Bucket), server)
}

func startVersity(t testing.TB, address, key, secret, data string, args ...string) *Process {
	t.Helper()
	server := Start(t, "versitygw", Installed(t, "versitygw"),
		append(baseEnv(t), "ROOT_ACCESS_KEY="+key, "ROOT_SECRET_KEY="+secret),
		append(append([]string{"--port", address, "--quiet", "--health", "/health"}, args...), "posix", data)...)
	server.Ready(t, Answers("http://"+address+"/health"))
	return server
}

// ReadOnly starts a second versitygw over the objects of the first, which refuses every write.
func (s *Store) ReadOnly(t testing.TB) *Store {
	t.Helper()
	if s.Name != "versitygw" {
		t.Fatalf("start %s without writes: only versitygw can", s.Name)
	}
	key, secret, address := s.Setting(t, "AWS_ACCESS_KEY_ID"), s.Setting(t, "AWS_SECRET_ACCESS_KEY"), FreeAddress(t)
	server := startVersity(t, address, key, secret, filepath.Dir(s.Path), "--readonly")
	return s3Store(s.Name, address, key, secret, s.Path, server)
}

func s3Store(name, address, key, secret, path string, server *Process) *Store {
	return &Store{
		Name: name, Root: "s3://" + Bucket, Path: path, server: server,
		Env: []string{
			"AWS_ENDPOINT_URL_S3=http://" + address, "AWS_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret,
		},
	}
}

// Server returns the store's process, or nil for a directory.
func (s *Store) Server() *Process { return s.server }

// Objects returns the bucket through the backend that the gateway uses. The backend reads
// credentials from the environment of this process, so tests that use it are not parallel.
func (s *Store) Objects(t testing.TB) objstore.Store {
	t.Helper()
	for _, pair := range s.Env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	if s.at != nil { // the store is in a network that this process cannot reach
		transport := s.at.Transport()
		door := httptest.NewServer(forwardTo(strings.TrimPrefix(s.Setting(t, "AWS_ENDPOINT_URL_S3"), "http://"), transport))
		t.Cleanup(func() {
			door.Close()
			transport.CloseIdleConnections()
		})
		t.Setenv("AWS_ENDPOINT_URL_S3", door.URL)
	}
	store, err := s3backend.New(s3backend.Config{Bucket: Bucket, PathStyle: true})
	if err != nil {
		t.Fatalf("open bucket of %s: %v", s.Name, err)
	}
	return store
}

// Keys lists the shards of a dataset.
func (s *Store) Keys(t *testing.T, dataset string) []string {
	t.Helper()
	var keys []string
	if s.Name == "dir" {
		entries, err := os.ReadDir(filepath.Join(s.Path, dataset))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".tar") {
				keys = append(keys, dataset+"/"+e.Name())
			}
		}
		return keys
	}
	err := s.Objects(t).List(context.WithoutCancel(t.Context()), dataset+"/", func(o objstore.Object) error {
		if strings.HasSuffix(o.Key, ".tar") {
			keys = append(keys, o.Key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func makeBucket(t testing.TB, data string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(data, Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
}

// credentials generates new credentials for every server, so that the source holds no secrets.
func credentials() (key, secret string) { return rand.Text(), rand.Text() + rand.Text() }

// baseEnv returns the environment of every child, without the user's configuration.
func baseEnv(t testing.TB) []string {
	t.Helper()
	home := t.TempDir()
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"),
		"TMPDIR=" + home, "NO_PROXY=127.0.0.1,localhost", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// Escape escapes key for a query.
func Escape(key string) string { return url.QueryEscape(key) }
