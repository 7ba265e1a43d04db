PLURALS = r"(?:slot|task|port|GPU|node|job|restart|second|byte|file)%"
