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

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tracing"
)

// regionName keeps a store from naming a host where it may name a region.
var regionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// endpoint is the address of a bucket, with the signer for its region.
type endpoint struct {
	region string
	core   *minio.Core // for all requests but GET and HEAD
	base   *url.URL    // of the bucket, with a slash at its end
	signer signer
}

// noPause takes the pause of up to 200 ms from minio-go that follows its last attempt.
var noPause sync.Once //nolint:gochecknoglobals // minio-go's only switch for it is a global too

// move takes a region for the bucket's.
func (b *Backend) move(region string) error {
	noPause.Do(func() { minio.DefaultRetryUnit = 0 })
	opts := b.options
	opts.Region, opts.Transport = region, errorTransport{b.transport, region}
	core, err := minio.NewCore(b.host, &opts)
	if err != nil {
		return err
	}
	// Only an address that minio-go has signed tells where it would send a request, and what it would sign.
	opts.Creds = credentials.NewStaticV4("id", "secret", "")
	teller, err := minio.New(b.host, &opts)
	if err != nil {
		return err
	}
	base, err := teller.Presign(context.Background(), http.MethodGet, b.cfg.Bucket, "", time.Minute, nil)
	if err != nil {
		return err
	}
	scope := strings.Split(base.Query().Get("X-Amz-Credential"), "/") // id, day, region, service, "aws4_request"
	base.RawPath, base.RawQuery = escape(base.Path, false), ""
	b.endpoint.Store(&endpoint{region: region, core: core, base: base, signer: signer{region: scope[2], service: scope[3]}})
	return nil
}

// send sends a request without a body and returns an answer that is no refusal. The caller closes its body.
func (b *Backend) send(ctx context.Context, method string, ref objstore.Ref, header http.Header) (*http.Response, error) {
	h := b.endpoint.Load()
	at := *h.base
	at.Path += ref.Key
	at.RawPath += escape(ref.Key, false)
	if ref.VersionID != "" {
		at.RawQuery = "versionId=" + escape(ref.VersionID, true)
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
		tracing.Inject(ctx, header) // without a signature: proxies on the way write their own
	}
	return errorTransport{b.transport, h.region}.RoundTrip(req)
}
