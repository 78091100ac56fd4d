package format

import "context"

// Options contains information about a dataset that its bytes do not contain. It comes from the
// user or from a README. The zero value contains none.
type Options struct {
	Named          bool   // the user named this format, so its survey may rely on content instead of names
	Hidden         bool   // include hidden members of archives, as defined by Hidden
	RecordSize     int64  // bytes in a record, for fixed-size records without a header
	SequenceLength int64  // tokens in a window, for token files; a sample has one token more, the first of the next window
	DType          string // type of tokens or records in NumPy's notation: "<u2"
	Key            string // KeyGroup or KeyPath: which members of an archive form a sample; empty: KeyGroup
	Header         string // HeaderPresent or HeaderAbsent: whether each table begins with a header; empty: detected

	Fields []string // paths of the columns to include; empty: all

	// Classes returns the names that a README assigns to values of integer columns, by column
	// path. nil: the dataset has no README.
	Classes func(context.Context) (map[string][]string, error)
}

// Values of Options.Key, and of the corresponding option of millrace pack.
const (
	KeyGroup = "group" // members or files whose names agree up to the first dot after the last slash
	KeyPath  = "path"  // each member or file is a sample of its own
)

// Values of Options.Header, in the terms of RFC 4180.
const (
	HeaderPresent = "present"
	HeaderAbsent  = "absent"
)

// Option is the flag of one field of Options. Format.Takes lists the options that a format uses.
type Option string

// Options that only some formats use.
const (
	RecordSize     Option = "--record-size"
	SequenceLength Option = "--sequence-length"
	DType          Option = "--dtype"
	Key            Option = "--sample-key"
	Header         Option = "--header"
	Fields         Option = "--fields"
)

// Given returns the options that are set, limited to those that only some formats use.
func (o *Options) Given() []Option {
	var all []Option
	for _, one := range []struct {
		option Option
		given  bool
	}{
		{RecordSize, o.RecordSize != 0},
		{SequenceLength, o.SequenceLength != 0},
		{DType, o.DType != ""},
		{Key, o.Key != ""},
		{Header, o.Header != ""},
		{Fields, len(o.Fields) > 0},
	} {
		if one.given {
			all = append(all, one.option)
		}
	}
	return all
}
