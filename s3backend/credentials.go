package s3backend

import (
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// stickyCredentials keeps the last credentials while its source finds none. A chain of providers
// reports a file that is being written, or a metadata service that does not answer, as "no
// credentials", and requests would then have no signature. It is guarded by the lock of a
// credentials.Credentials.
type stickyCredentials struct {
	source credentials.Provider
	last   credentials.Value
	fault  error     // error of the source, while no credentials were found yet
	again  time.Time // when to ask the source again; zero if the credentials are current
}

// lookAgain is the pause after a source gave no credentials.
const lookAgain = 5 * time.Second

func (s *stickyCredentials) Retrieve() (credentials.Value, error) {
	return s.RetrieveWithCredContext(nil)
}

func (s *stickyCredentials) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	if s.fault != nil && time.Now().Before(s.again) { // each request calls this while there are no credentials
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
