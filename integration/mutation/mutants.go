package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"unicode"
)

// helper is the file that a mutated package has in addition to its own, without the package clause.
//
//go:embed helper.txt
var helper string

// dropped is the operator that deletes a statement.
const dropped = "drop"

// releases lists first words of function names. The drop operator deletes calls of such functions.
var releases = strings.Fields(`release leave close unlock runlock put free give return unpin refund
	done end finish stop cancel abort abandon discard drop remove delete forget evict`)

// mutant is one small change of a package.
type mutant struct {
	id   int // number in this build
	name string
	op   string
	file string
	line int
}

// mutants adds mutants to the files of a package.
type mutants struct {
	*source
	all   []mutant
	seen  map[string]int // number of mutants, by name without ordinal
	file  int            // index of the file
	fn    string
	stack []ast.Node
	edits []edit
}

// mutate returns all mutants of a package, and its files with these mutants, by name.
func mutate(s *source) ([]mutant, map[string][]byte) {
	m := &mutants{source: s, seen: map[string]int{}}
	files := map[string][]byte{"mutants_helper.go": []byte("package " + s.files[0].Name.Name + "\n\n" + helper)}
	for i, f := range s.files {
		if ast.IsGenerated(f) {
			continue
		}
		m.file, m.edits = i, nil
		for _, decl := range f.Decls {
			m.fn = name(decl)
			ast.Inspect(decl, m.visit)
		}
		files[s.GoFiles[i]] = apply(s.texts[i], m.edits)
	}
	return m.all, files
}

// name returns the name of a function with its receiver's type, or that of the first variable of a
// declaration.
func name(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		of := d.Recv.List[0].Type
		for {
			switch t := of.(type) {
			case *ast.StarExpr:
				of = t.X
			case *ast.IndexExpr:
				of = t.X
			case *ast.IndexListExpr:
				of = t.X
			default:
				return types.ExprString(of) + "." + d.Name.Name
			}
		}
	case *ast.GenDecl:
		if len(d.Specs) > 0 {
			if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return ""
}

func (m *mutants) visit(n ast.Node) bool {
	if n == nil {
		m.stack = m.stack[:len(m.stack)-1]
		return true
	}
	if e, ok := n.(ast.Expr); ok && m.info.Types[e].Value != nil {
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.SUB && m.is(n, types.IsNumeric) && !untypedShift(m.info, n.X) {
			m.wrap(n, fmt.Sprintf("mutantNeg(%d, ", m.add("negative", n, n.OpPos, "")), ")")
			m.replace(n.OpPos, 1, "")
		}
	case *ast.IncDecStmt:
		m.step(n)
	case *ast.ExprStmt:
		m.drop(n, n.X)
	case *ast.DeferStmt:
		m.drop(n, n.Call)
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 && !slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return types.ExprString(e) != "_" }) {
			m.drop(n, n.Rhs[0])
		}
	}
	m.stack = append(m.stack, n)
	return true
}

var (
	boundaries = map[token.Token]string{token.LSS: "mutantLess", token.LEQ: "mutantAtMost", token.GTR: "mutantMore", token.GEQ: "mutantAtLeast"}
	arithmetic = map[token.Token]string{token.ADD: "mutantAdd", token.SUB: "mutantSub", token.MUL: "mutantMul",
		token.QUO: "mutantQuo", token.REM: "mutantRem"}
	became = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.LAND: token.LOR, token.LOR: token.LAND}
)

func (m *mutants) binary(n *ast.BinaryExpr) {
	generic := !untypedShift(m.info, n.X) && !untypedShift(m.info, n.Y)
	switch {
	case n.Op == token.LAND || n.Op == token.LOR:
		// a || b is the negation of !a && !b, and vice versa, with the same evaluation
		// order.
		if t, ok := types.Default(m.info.TypeOf(n)).(*types.Basic); ok && t.Kind() == types.Bool {
			on := fmt.Sprintf(") != mutantOn(%d)", m.add("logical", n, n.OpPos, became[n.Op].String()))
			m.wrap(n, "(((", on+on+")")
			m.insert(n.X.End(), ends, on)
			m.insert(n.Y.Pos(), begins, "(")
		}
	case boundaries[n.Op] != "" && generic && m.is(n.X, types.IsOrdered) && m.is(n.Y, types.IsOrdered):
		edge := m.add("boundary", n, n.OpPos, became[n.Op].String())
		not := m.add("negation", n, n.OpPos, "")
		m.wrap(n, fmt.Sprintf("(%s(%d, ", boundaries[n.Op], edge), fmt.Sprintf(") != mutantOn(%d))", not))
		m.replace(n.OpPos, len(n.Op.String()), ",")
	case boundaries[n.Op] != "" || n.Op == token.EQL || n.Op == token.NEQ:
		m.wrap(n, "((", fmt.Sprintf(") != mutantOn(%d))", m.add("negation", n, n.OpPos, "")))
	case arithmetic[n.Op] != "" && generic && m.is(n, types.IsInteger|types.IsFloat):
		m.wrap(n, fmt.Sprintf("%s(%d, ", arithmetic[n.Op], m.add("arithmetic", n, n.OpPos, became[n.Op].String())), ")")
		m.replace(n.OpPos, len(n.Op.String()), ",")
	}
}

// is reports whether the underlying type of an expression is basic and of a given kind. It returns
// false for a type parameter.
func (m *mutants) is(e ast.Expr, kind types.BasicInfo) bool {
	t, ok := m.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && t.Info()&kind != 0 && t.Info()&types.IsComplex == 0
}

// untypedShift reports whether an operand is or contains a shift of a constant. Such an operand
// would have another type as a function's argument.
func untypedShift(info *types.Info, e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.SHL || b.Op == token.SHR) {
			found = found || info.Types[b].Value == nil && info.Types[b.X].Value != nil
		}
		return !found
	})
	return found
}

func (m *mutants) step(n *ast.IncDecStmt) {
	helper, other := "mutantInc", "--"
	if n.Tok == token.DEC {
		helper, other = "mutantDec", "++"
	}
	switch {
	case !m.is(n.X, types.IsNumeric):
	case m.info.Types[n.X].Addressable():
		m.insert(n.Pos(), begins, fmt.Sprintf("%s(%d, &", helper, m.add("increment", n, n.TokPos, other)))
		m.replace(n.TokPos, 2, ")")
	case m.inBlock(): // an element of a map
		id := m.add("increment", n, n.TokPos, other)
		m.wrap(n, fmt.Sprintf("if mutantOn(%d) { %s%s } else { ", id, m.text(n.X), other), " }")
	}
}

func (m *mutants) drop(n ast.Stmt, e ast.Expr) {
	call, ok := e.(*ast.CallExpr)
	if !ok || !m.inBlock() {
		return
	}
	called := ""
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		called = f.Name
	case *ast.SelectorExpr:
		called = f.Sel.Name
	}
	if slices.Contains(releases, firstWord(called)) {
		m.wrap(n, fmt.Sprintf("if !mutantOn(%d) { ", m.add(dropped, n, n.Pos(), "")), " }")
	}
}

// firstWord returns the first word of a camel-case name in lower case. RUnlock is one word.
func firstWord(name string) string {
	if name == "RUnlock" {
		return "runlock"
	}
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			return strings.ToLower(name[:i])
		}
	}
	return strings.ToLower(name)
}

// inBlock reports whether the node is a statement of a list, and not a part of a for, if, switch or
// select.
func (m *mutants) inBlock() bool {
	switch m.stack[len(m.stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}

// add adds a mutant and returns its ID. Names contain no line numbers, so they survive changes
// elsewhere in a file.
func (m *mutants) add(op string, n ast.Node, at token.Pos, becomes string) int {
	text := strings.Join(strings.Fields(m.text(n)), " ")
	if len(text) > 100 {
		text = text[:100] + "..."
	}
	file := m.GoFiles[m.file]
	name := strings.TrimSpace(fmt.Sprintf("%s %s, %s %s", file, m.fn, op, becomes)) + ": " + text
	if m.seen[name]++; m.seen[name] > 1 {
		name += fmt.Sprintf(" #%d", m.seen[name])
	}
	id := len(m.all) + 1
	m.all = append(m.all, mutant{id: id, name: name, op: op, file: file, line: m.set.Position(at).Line})
	return id
}

func (m *mutants) offset(p token.Pos) int { return m.set.Position(p).Offset }

func (m *mutants) text(n ast.Node) string {
	return string(m.texts[m.file][m.offset(n.Pos()):m.offset(n.End())])
}

func (m *mutants) insert(at token.Pos, kind int, text string) {
	m.edits = append(m.edits, edit{offset: m.offset(at), kind: kind, depth: len(m.stack), text: text})
}

func (m *mutants) wrap(n ast.Node, before, after string) {
	m.insert(n.Pos(), begins, before)
	m.insert(n.End(), ends, after)
}

func (m *mutants) replace(at token.Pos, length int, text string) {
	m.edits = append(m.edits, edit{offset: m.offset(at), kind: replaces, depth: len(m.stack), text: text, replaced: length})
}
