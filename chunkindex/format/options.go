package format

import "context"

// Options are what a user says of a dataset, or a note beside it, and its bytes do not. The zero value says nothing.
type Options struct {
	Named          bool   // this format and no other: its survey may go by content where names say nothing
	Hidden         bool   // hidden members of archives are taken too, as format.Hidden has them
	RecordSize     int64  // bytes of a record, of records of one size without a header
	SequenceLength int64  // tokens of a window, of token files; a sample has one token more, the next window's first
	DType          string // of tokens or records, as NumPy writes it: "<u2"
	Key            string // KeyGroup or KeyPath: which members of an archive are one sample; empty: KeyGroup
	Header         string // HeaderPresent or HeaderAbsent: whether the first record of each table is a header; empty: the format finds out

	Fields []string // columns that samples have, by their paths; empty: all

	// Classes reads the names that a repository's README gives to the values of integer columns, by the columns' paths. nil: there is none.
	Classes func(context.Context) (map[string][]string, error)
}

// What Options.Key says, and a user of millrace pack.
const (
	KeyGroup = "group" // members, or files, whose names are the same up to the first dot after the last slash
	KeyPath  = "path"  // each is a sample of its own
)

// What Options.Header says, in the words of RFC 4180.
const (
	HeaderPresent = "present"
	HeaderAbsent  = "absent"
)

// Option is one of the Options, by its flag. A format that takes it says so in Format.Takes.
type Option string

// The options that only some formats take.
const (
	RecordSize     Option = "--record-size"
	SequenceLength Option = "--sequence-length"
	DType          Option = "--dtype"
	Key            Option = "--key"
	Header         Option = "--header"
	Fields         Option = "--fields"
)

// Given returns the options that a user has given, of those that only some formats take.
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
