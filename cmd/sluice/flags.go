package main

import "github.com/spf13/cobra"

// flags are those that were given on the command line, by name, as text. They are
// read together with the environment, so that all faults come at once.
type flags map[string]string

// registerFlags makes a flag of each setting.
func registerFlags(cmd *cobra.Command) flags {
	set := cmd.Flags()
	given := flags{}
	for _, t := range new(settings).table() {
		f := set.VarPF(&flagText{given, t}, t.flag, "", t.help)
		if t.kind == kindBool {
			f.NoOptDefVal = "true"
		}
	}
	set.SortFlags = false
	return given
}

// flagText takes any text.
type flagText struct {
	given flags
	of    setting
}

// Set keeps the text.
func (f *flagText) Set(text string) error {
	f.given[f.of.flag] = text
	return nil
}

// String is what was given, else the default.
func (f *flagText) String() string {
	if text, ok := f.given[f.of.flag]; ok {
		return text
	}
	return f.of.standard
}

// Type is shown by help.
func (f *flagText) Type() string { return f.of.kind }
