package auth

// Guard knows callers and their rights. It is safe for concurrent use.
type Guard struct {
	everybody []Right // what all callers may do where there is no access file
}

// Everybody is the guard of a gateway without an access file: it asks for no credentials, and each caller has these
// rights on all datasets.
func Everybody(rights ...Right) *Guard { return &Guard{everybody: rights} }

// Authenticate says who shows the credentials. Without any the caller is anonymous. An error is an ErrInvalid.
func (g *Guard) Authenticate(Credentials) (Principal, error) { return Anonymous(), nil }

// May reports whether a principal has a right on a dataset, whether or not there is such a dataset. Admin is a right on
// the gateway: its dataset is "".
func (g *Guard) May(_ Principal, right Right, _ string) bool {
	for _, r := range g.everybody {
		if r == right {
			return true
		}
	}
	return right == None
}

// GrantsSources reports whether the grant by which a principal may read a mixture lets it read the mixture's sources as
// parts of the mixture.
func (g *Guard) GrantsSources(Principal, string) bool { return false }

// Limits returns the limits of a principal.
func (g *Guard) Limits(Principal) Limits { return Limits{} }
