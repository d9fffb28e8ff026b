"""What people look at: figures, contact sheets and pages that need nothing but themselves."""
