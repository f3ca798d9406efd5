package files

import "crypto/rand"

// tempName is a name that nobody guesses and no rule is likely to hide.
func tempName() string { return ".gander-" + rand.Text() + ".tmp" }
