// Package confine puts a sandbox under a policy: which files its rules close, what its git
// sees, what may leave it and how much.
//
// An [Examination] looks at a new sandbox before anything hostile runs in it and does what
// the policy's git says about closed files that git keeps; what it returns does so [Examined.Again]
// later. [Leaks] looks for content of closed files in what leaves.
package confine
