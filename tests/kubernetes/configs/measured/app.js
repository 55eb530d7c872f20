// The app of this configuration; `export` never starts it.
