package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completionPatience: who pressed Tab waits for it.
const completionPatience = 2 * time.Second

// completeNames completes the first argument from the names that the authority
// knows. What goes wrong is a completion without names.
func (p *place) completeNames(next cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, next
		}
		none := cobra.ShellCompDirectiveNoFileComp
		if fromEnv(c.Flags()) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
		defer cancel()
		a, err := p.openToLook(ctx)
		if err != nil {
			return nil, none
		}
		defer a.Close()
		states, err := list(ctx, a, true)
		if err != nil {
			return nil, none
		}
		var names []cobra.Completion
		for _, s := range states {
			names = append(names, s.Name)
		}
		return names, none
	}
}
