"""What must outlive a machine: encrypted by us, kept in a folder, an object store or the database."""
