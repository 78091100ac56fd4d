package s3backend

import (
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// stickyCredentials keeps the last credentials while its source finds none. A chain of providers
// reports "no credentials" for a file that is being written, or for a metadata service that does
// not respond. Without the last credentials, requests would then have no signature. The lock of a
// credentials.Credentials guards it.
type stickyCredentials struct {
	source credentials.Provider
	last   credentials.Value
	fault  error     // error of the source, as long as no credentials have been found
	again  time.Time // when to query the source again; zero if the credentials are current
}

// lookAgain is the pause after a source has returned no credentials.
const lookAgain = 5 * time.Second

func (s *stickyCredentials) Retrieve() (credentials.Value, error) {
	return s.RetrieveWithCredContext(nil)
}

func (s *stickyCredentials) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	if s.fault != nil && time.Now().Before(s.again) { // without credentials, each request calls this function
		return credentials.Value{}, s.fault
	}
	v, err := s.source.RetrieveWithCredContext(cc)
	if err == nil && v.AccessKeyID != "" {
		s.last, s.fault, s.again = v, nil, time.Time{}
		return v, nil
	}
	s.again = time.Now().Add(lookAgain)
	if s.last.AccessKeyID == "" {
		s.fault = err
		return v, err
	}
	return s.last, nil
}

func (s *stickyCredentials) IsExpired() bool {
	if s.again.IsZero() {
		return s.source.IsExpired()
	}
	return !time.Now().Before(s.again)
}
