package s3backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-data/millrace/internal/objstore"
)

// failure is an error of one of objstore's kinds, with information for the retry loop. Its text
// contains a code, a status and a request ID. It never contains the full text of a server or proxy,
// which may repeat a signature or a key.
type failure struct {
	kind   error  // an error of objstore; nil: the caller's error
	detail string // description of the error
	cause  error  // for errors.Is; shown only if detail is empty
	retry  bool   // another attempt may succeed
	code   string // S3 error code, if any
	lost   bool   // the request may have taken effect
	fresh  bool   // new credentials may help
	own    bool   // reading the caller's body failed; takes precedence over network errors
	region string // the bucket's region, if the request was signed for a different one
}

func (f *failure) Error() string {
	switch {
	case f.kind == nil:
		return f.detail
	case f.detail == "":
		return f.kind.Error()
	}
	return f.kind.Error() + ": " + f.detail
}

func (f *failure) Unwrap() []error {
	return slices.DeleteFunc([]error{f.kind, f.cause}, func(err error) bool { return err == nil })
}

// badAnswer returns the error for a response that contradicts the request, sent by a faulty service
// or proxy. Another attempt may get a correct response.
func badAnswer(format string, args ...any) error {
	return &failure{kind: objstore.ErrUnavailable, detail: "invalid response: " + fmt.Sprintf(format, args...), retry: true, lost: true}
}

func changed(got, want string) error {
	return &failure{kind: objstore.ErrChanged, detail: fmt.Sprintf("it is %s, expected %s", got, want)}
}

func short(format string, args ...any) error {
	return &failure{kind: objstore.ErrShort, detail: fmt.Sprintf(format, args...)}
}

// classify converts any error of minio-go or of the network to a failure.
func classify(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if a, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return classifyAnswer(&a)
	}
	return classifyNetwork(err)
}

func classifyAnswer(a *minio.ErrorResponse) *failure {
	f := &failure{code: a.Code}
	f.detail = fmt.Sprintf("%s (status %d", clip(a.Code), a.StatusCode)
	if a.RequestID != "" {
		f.detail += ", request " + clip(a.RequestID)
	}
	f.detail += ")"
	switch status := a.StatusCode; a.Code { // the code is more specific than the status
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "RequestLimitExceeded", "Throttling", "ThrottlingException", "ServiceBusy":
		f.kind, f.retry = objstore.ErrThrottled, true
	case "RequestTimeout":
		f.kind, f.retry = objstore.ErrTimeout, true
	case "ConditionalRequestConflict", "OperationAborted":
		f.kind, f.retry = objstore.ErrChanged, true
	case "NoSuchUpload":
		f.kind = objstore.ErrUnavailable
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId":
		f.kind, f.fresh = objstore.ErrDenied, true
	case "RequestTimeTooSkewed":
		f.kind = objstore.ErrDenied
	default:
		f.classifyStatus(status)
	}
	return f
}

func (f *failure) classifyStatus(status int) {
	switch {
	case status == http.StatusNotFound:
		f.kind = objstore.ErrNotFound
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		f.kind = objstore.ErrChanged
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.kind, f.fresh = objstore.ErrDenied, true
	case status == http.StatusTooManyRequests:
		f.kind, f.retry = objstore.ErrThrottled, true
	case status == http.StatusRequestedRangeNotSatisfiable:
		f.kind, f.code = objstore.ErrShort, "InvalidRange"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		f.kind, f.retry, f.lost = objstore.ErrTimeout, true, true
	case status >= 300 && status < 400:
		f.kind, f.detail = objstore.ErrDenied, "the store sent a redirect, which is not followed: check endpoint and region: "+f.detail
	case status >= 500:
		f.kind, f.retry, f.lost = objstore.ErrUnavailable, status != http.StatusNotImplemented, true
	case status == http.StatusConflict:
		f.kind, f.retry = objstore.ErrChanged, true
	case status == 0, status == http.StatusOK: // minio-go could not read the response, or found an error in it
		f.kind, f.retry, f.lost = objstore.ErrUnavailable, true, true
	default: // the service understood the request and rejected it
		f.kind = objstore.ErrDenied
	}
}

// maxSkew is the maximum difference that S3 accepts between its own clock and the time of a
// signature.
const maxSkew = 15 * time.Minute

// blameClock reports this machine's clock as the cause of a rejection, if it is the cause. Not
// every service reports that, and none in the response to a HEAD, but the time of the response
// shows it.
func (f *failure) blameClock(skew time.Duration) {
	if !errors.Is(f.kind, objstore.ErrDenied) || f.code != "RequestTimeTooSkewed" && skew.Abs() <= maxSkew {
		return
	}
	how := "differs too much from"
	switch off := skew.Abs().Round(time.Second); {
	case skew > maxSkew:
		how = fmt.Sprintf("is %s ahead of", off)
	case skew < -maxSkew:
		how = fmt.Sprintf("is %s behind", off)
	}
	f.fresh = false // new credentials do not help if the clock is wrong
	f.detail = "this machine's clock " + how + " the store's: set the clock with NTP: " + f.detail
}

// blameRegion reports the region as the cause of a rejection, if it is the cause. No response to a
// HEAD has a code for that.
func (f *failure) blameRegion(status int, bucket, signed string) {
	if errors.Is(f.kind, objstore.ErrDenied) && status <= http.StatusBadRequest && bucket != signed && regionName.MatchString(bucket) {
		f.region, f.fresh = bucket, false
		f.detail = fmt.Sprintf("the bucket is in region %s, not in %s: set region= in its address, or AWS_REGION: %s", bucket, signed, f.detail)
	}
}

// blameKey adds the access key and its source, if the service refuses the key. authorization is the
// request's header.
func (f *failure) blameKey(authorization, profile string) {
	wrong := map[string]string{"SignatureDoesNotMatch": "the secret does not fit the access key", "InvalidAccessKeyId": "the service does not know the access key"}[f.code]
	_, key, _ := strings.Cut(authorization, "Credential=")
	key, _, _ = strings.Cut(key, "/")
	if wrong == "" || key == "" || !errors.Is(f.kind, objstore.ErrDenied) {
		return
	}
	from := "the shared AWS files or a role"
	switch {
	case profile != "":
		from = "profile " + profile
	case key == os.Getenv("AWS_ACCESS_KEY_ID"):
		from = "AWS_ACCESS_KEY_ID"
	}
	f.detail += fmt.Sprintf(": %s %.4s... from %s: correct it there", wrong, key, from)
}

// codeOf returns the error code for a response without one. The response to a HEAD has no body, and
// a proxy's response is not an S3 document.
func codeOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "AccessDenied"
	case http.StatusNotFound:
		return "NoSuchKey"
	}
	return http.StatusText(status)
}

// clip makes a text from a server short and printable.
func clip(s string) string {
	const most = 160
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '.'
		}
		return c
	}, s)
}

func classifyNetwork(err error) *failure {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the text of the url.Error contains the URL
	}
	f := &failure{kind: objstore.ErrUnavailable, cause: err, retry: true, lost: true}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	dns, noName := errors.AsType[*net.DNSError](err)
	timeout, timed := errors.AsType[net.Error](err)
	op, inNet := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		f.kind, f.detail, f.cause = objstore.ErrTimeout, err.Error(), nil
	case untrusted:
		f.detail, f.retry, f.lost = "certificate: "+err.Error(), false, false
	case noName:
		f.detail, f.lost = "look up "+dns.Name+": "+dns.Err, false
	case timed && timeout.Timeout():
		f.kind, f.detail = objstore.ErrTimeout, "the network timed out"
	case inNet:
		f.detail = op.Op + ": " + op.Err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.detail = "the connection was closed"
	default:
		f.detail = "the transfer failed: " + clip(err.Error())
	}
	return f
}
