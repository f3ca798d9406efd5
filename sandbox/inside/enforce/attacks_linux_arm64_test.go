package enforce

func olderAttacks() []attack { return nil }
