@rem npm start begins with exec, so that signals reach the program and not a shell; Windows has no exec and finds this file.
@%*
