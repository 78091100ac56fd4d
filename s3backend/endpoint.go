package s3backend

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tracing"
)

// regionName prevents a store from specifying a host instead of a region.
var regionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// endpoint is the address of a bucket, with the signer for its region.
type endpoint struct {
	region string
	core   *minio.Core // for all requests except GET and HEAD of objects
	base   *url.URL    // URL of the bucket, with a trailing slash
	signer signer
}

// noPause removes minio-go's pause of up to 200 ms after its last attempt.
var noPause sync.Once //nolint:gochecknoglobals // minio-go's only switch for it is a global too

// move sets the bucket's region.
func (b *Backend) move(region string) error {
	noPause.Do(func() { minio.DefaultRetryUnit = 0 })
	opts := b.options
	opts.Region, opts.Transport = region, errorTransport{b.transport, region, b.cfg.Profile}
	core, err := minio.NewCore(b.host, &opts)
	if err != nil {
		return err
	}
	// Only a URL that minio-go has signed shows the host to which minio-go would send a
	// request, and the scope that it would sign.
	opts.Creds = credentials.NewStaticV4("id", "secret", "")
	teller, err := minio.New(b.host, &opts)
	if err != nil {
		return err
	}
	base, err := teller.Presign(context.Background(), http.MethodGet, b.cfg.Bucket, "", time.Minute, nil)
	if err != nil {
		return err
	}
	scope := strings.Split(base.Query().Get("X-Amz-Credential"), "/") // access key ID, day, region, service, "aws4_request"
	base.RawPath, base.RawQuery = s3utils.EncodePath(base.Path), ""
	b.endpoint.Store(&endpoint{region: region, core: core, base: base, signer: signer{region: scope[2], service: scope[3]}})
	return nil
}

// send sends a request without a body, and returns a successful response. The caller closes its
// body.
func (b *Backend) send(ctx context.Context, method string, ref objstore.Ref, header http.Header) (*http.Response, error) {
	h := b.endpoint.Load()
	at := *h.base
	at.Path += ref.Key
	at.RawPath += s3utils.EncodePath(ref.Key)
	if ref.VersionID != "" {
		at.RawQuery = "versionId=" + strings.ReplaceAll(s3utils.EncodePath(ref.VersionID), "/", "%2F")
	}
	if ref.ETag != "" {
		set(header, "If-Match", `"`+ref.ETag+`"`)
	}
	set(header, "User-Agent", "millrace")
	req := (&http.Request{Method: method, URL: &at, Header: header}).WithContext(ctx)
	v, err := b.options.Creds.GetWithContext(nil)
	if err != nil {
		return nil, err
	}
	if !v.SignerType.IsAnonymous() {
		h.signer.sign(req, &v, time.Now())
	}
	if b.cfg.Traceparent {
		tracing.Inject(ctx, header) // not signed, since proxies may replace it
	}
	return errorTransport{b.transport, h.region, b.cfg.Profile}.RoundTrip(req)
}
